# syntax=docker/dockerfile:1

FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY kernel kernel
COPY benches benches
COPY src src
COPY tests/data tests/data
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked --bin singularity && install -D target/release/singularity /out/singularity

FROM debian:bookworm-slim
# Python and pip fetch the weights of the embedded model. MCP servers bring their own needs: build `FROM` this image and add Node or others.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-pip \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 singularity \
    && useradd --system --uid 10001 --gid singularity --home-dir /home/singularity --create-home singularity \
    && install -d -o singularity -g singularity -m 0700 /var/lib/singularity \
    && install -d /etc/singularity
COPY --from=build /out/singularity /usr/local/bin/singularity
USER 10001:10001
WORKDIR /home/singularity
ENV SINGULARITY_HOME=/var/lib/singularity
VOLUME /var/lib/singularity
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s \
    CMD ["sh", "-c", "test -S \"$SINGULARITY_HOME/singularity.sock\" && singularity get -o name"]
ENTRYPOINT ["singularity"]
CMD ["serve", "/etc/singularity"]
