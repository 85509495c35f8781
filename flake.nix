{
  description = "GitOps for autonomous agents: declare beings, converge what runs to what is declared";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      package = pkgs: pkgs.callPackage ./nix/package.nix { };
      manifests = import ./nix/lib.nix { };
    in
    {
      packages = each (pkgs: rec {
        singularity = package pkgs;
        default = singularity;
      });

      apps = each (pkgs: {
        default = {
          type = "app";
          program = "${package pkgs}/bin/singularity";
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          # What `.ci/run` asks of a machine.
          packages = [ pkgs.cargo pkgs.rustc pkgs.clippy pkgs.rustfmt pkgs.git pkgs.nodejs pkgs.python3 ];
        };
      });

      checks = each (pkgs: {
        package = package pkgs;
        # The program accepts the examples, those in TOML and that in Nix.
        examples = pkgs.runCommand "singularity-examples" { } ''
          for manifest in ${./examples}/*.toml ${pkgs.writeText "example.json" self.lib.example}; do
            ${package pkgs}/bin/singularity validate -f "$manifest"
          done
          touch $out
        '';
      });

      overlays.default = final: _: { singularity = package final; };

      nixosModules.default = import ./nix/nixos.nix { inherit package; };
      homeModules.default = import ./nix/home.nix { inherit package; };

      lib = {
        inherit (manifests) mkBeing mkModel mkSurface mkCap mkSource credential merge problems schema toManifest;
        example = import ./nix/example.nix { lib = manifests; };
      };
    };
}
