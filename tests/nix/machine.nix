# A machine with the module and what `services.singularity` is to be; `tries` asks which of many settings are accepted.
{ root, services ? "{ }", tries ? "[ ]", home ? false, package ? null }:
let
  lib = import (root + "/tests/nix/nixpkgs/lib.nix");
  pkgs = import (root + "/tests/nix/nixpkgs/pkgs.nix") { inherit lib; system = "x86_64-linux"; };
  program = if package == null then pkgs.cargo else { type = "derivation"; name = "singularity"; outPath = package; };
  module = import (root + "/nix/${if home then "home" else "nixos"}.nix") { package = _: program; };
  configured = services: ((if home then lib.homeManagerConfiguration else lib.nixosSystem) {
    inherit pkgs;
    modules = [ module { services.singularity = { enable = true; } // services; } ];
  }).config;
  manifests = import (root + "/nix/lib.nix") { };
  of = settings: (configured { inherit settings; validate = false; }).services.singularity;
  accepts = make: settings: (builtins.tryEval (builtins.deepSeq (make settings) true)).value;
in
rec {
  inherit configured;
  config = configured (builtins.fromJSON services);
  # What the service is, and the text of the unit that is shipped for other systems.
  unit = config.systemd.services.singularity;
  userUnit = config.systemd.user.services.singularity;
  shipped = (import (root + "/nix/unit.nix") { program = "/usr/bin/singularity"; sources = [ "/etc/singularity" ]; }).text;
  inherit (config.services.singularity) manifest;
  # The same settings through the module and through the library alone.
  each = map (settings: { module = (of settings).manifest.text; library = manifests.toManifest settings; }) (builtins.fromJSON tries);
  accepted = map (settings: { module = accepts (settings: (of settings).settings) settings; library = accepts manifests.toManifest settings; }) (builtins.fromJSON tries);
}
