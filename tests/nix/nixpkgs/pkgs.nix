# The part of nixpkgs' packages that the flake uses. What is built is built by the machine's own shell.
{ lib, system }:
let
  plain = name: attributes: script: derivation (attributes // {
    inherit name system;
    builder = "/bin/sh";
    args = [ "-euc" script ];
    PATH = "/usr/bin:/bin";
  });
  packages = rec {
    inherit lib;
    stdenv.hostPlatform = { inherit system; };
    callPackage = lib.callPackageWith packages;
    runCommand = plain;
    writeText = name: text: plain name { inherit text; } ''printf %s "$text" > "$out"'';
    mkShell = { packages }: plain "shell" { inherit packages; } ''echo "$packages" > "$out"'';
    rustPlatform.buildRustPackage = { pname, version, src, cargoLock, ... }@package:
      plain "${pname}-${version}" { inherit src; lock = cargoLock.lockFile; } ''ls -R "$src" > "$out"'' // { inherit (package) meta; };
    installShellFiles = plain "install-shell-files" { } ''touch "$out"'';
    cargo = plain "cargo" { } ''touch "$out"'';
    coreutils = cargo;
    rustc = cargo;
    clippy = cargo;
    rustfmt = cargo;
    git = cargo;
    nodejs = cargo;
    python3 = cargo;
  };
in
packages
