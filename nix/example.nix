# `examples/hello.toml`, said in Nix:
#
#   nix eval --raw .#lib.example | singularity apply -f -
{ lib ? import ./lib.nix { } }:
lib.toManifest [
  (lib.mkModel "smol" {
    provider = "embedded";
    max_tokens = 256;
  })
  (lib.mkBeing "ada" {
    specialty = "keeping notes";
    model = "smol";
    stimulus = "Remember one thing that you want to do today, and write it into notes.txt.";
    las.only = [ ];
    cycle = { every = "5s"; max_tool_rounds = 4; };
    budget.starting = "1";
  })
]
