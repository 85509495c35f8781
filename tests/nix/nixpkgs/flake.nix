{
  description = "As much of nixpkgs as the flake uses, for machines that cannot fetch it";

  outputs = _: rec {
    lib = import ./lib.nix;
    legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: import ./pkgs.nix { inherit lib system; });
  };
}
