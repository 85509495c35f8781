# What `services.singularity` has on NixOS and in Home Manager alike. `package` picks the program out of a set of packages.
{ package }:
{ config, lib, pkgs, ... }:
let
  inherit (lib) mkOption types;
  cfg = config.services.singularity;
  manifests = import ./lib.nix { };
in
{
  options.services.singularity = {
    enable = lib.mkEnableOption "Singularity, which runs autonomous agents from manifests";
    package = mkOption {
      type = types.package;
      default = package pkgs;
      defaultText = lib.literalExpression "singularity.packages.\${system}.default";
      description = "The program.";
    };
    settings = mkOption {
      type = (import ./types.nix { inherit lib manifests; }).manifest;
      default = { };
      description = "What is declared: models, surfaces, caps, decisions, categories and beings, as in a manifest. Secrets are named, never written.";
      example = lib.literalExpression ''{
        model.smol.provider = "embedded";
        being.ada = { model = "smol"; budget.starting = "1"; };
      }'';
    };
    sources = mkOption {
      type = types.listOf types.str;
      default = [ ];
      description = "More folders and files of manifests to serve, by path. A change of them converges at once.";
      example = [ "/srv/fleet" ];
    };
    credentials = mkOption {
      type = types.attrsOf types.str;
      default = { };
      description = ''
        Secrets by name: the paths of files that systemd reads and hands to the service alone. In `settings` they are `{ credential = "name"; }`.
        A path in quotes, such as that of an agenix or sops-nix secret: one without quotes would be copied to where everyone can read it.
      '';
      example = { model-key = "/run/agenix/model-key"; };
    };
    path = mkOption {
      type = types.listOf types.package;
      default = [ ];
      description = "Packages whose programs MCP servers are started from.";
      example = lib.literalExpression "[ pkgs.nodejs ]";
    };
    environment = mkOption {
      type = types.attrsOf types.str;
      default = { };
      description = "More variables for the service. No secrets: everyone can read a unit.";
      example = { RUST_LOG = "info"; };
    };
    writable = mkOption {
      type = types.listOf types.str;
      default = [ ];
      description = "Folders that beings work in outside of the service's own, such as a `workspace` of `settings`; the rest of the system is read-only.";
      example = [ "/srv/ada" ];
    };
    validate = mkOption {
      type = types.bool;
      default = true;
      description = "Whether the program checks `settings` when the system is built, so that a fault stops the build and not the fleet.";
    };
    manifest = mkOption {
      type = types.package;
      readOnly = true;
      description = "The manifest that `settings` are written to.";
    };
  };

  config.services.singularity.manifest =
    let written = pkgs.writeText "singularity.json" (manifests.toManifest cfg.settings); in
    if !cfg.validate then written
    else pkgs.runCommand "singularity.json" { } ''
      ${cfg.package}/bin/singularity validate -f ${written}
      cp ${written} $out
    '';
}
