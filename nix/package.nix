# The program, built from this tree. Tests are left to `.ci/run`: they want a network, npm and PyPI.
{ lib, rustPlatform, installShellFiles }:
let
  manifest = builtins.fromTOML (builtins.readFile ../Cargo.toml);
  parts = [ "Cargo.lock" "Cargo.toml" "LICENSE" "README.md" "benches" "kernel" "src" "tests/data" ];
  root = toString ../.;
in
rustPlatform.buildRustPackage {
  pname = manifest.package.name;
  version = manifest.workspace.package.version;
  src = lib.cleanSourceWith {
    src = ../.;
    # What the build does not read cannot make it anew.
    filter = path: _: builtins.any (part: path == "${root}/${part}" || lib.hasPrefix "${root}/${part}/" path || lib.hasPrefix "${path}/" "${root}/${part}") parts;
  };
  cargoLock.lockFile = ../Cargo.lock;
  doCheck = false;

  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    for shell in bash fish zsh; do "$out/bin/singularity" completion "$shell" > "singularity.$shell"; done
    installShellCompletion singularity.{bash,fish,zsh}
    "$out/bin/singularity" man --write man
    installManPage man/*.1
  '';

  meta = {
    inherit (manifest.package) description;
    license = lib.licenses.asl20;
    mainProgram = manifest.package.name;
    platforms = lib.platforms.linux;
  };
}
