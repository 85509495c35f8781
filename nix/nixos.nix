# The NixOS module: one daemon for the machine, as a user of its own.
{ package }:
{ config, lib, pkgs, ... }:
let
  cfg = config.services.singularity;
  unit = import ./unit.nix {
    program = "${cfg.package}/bin/singularity";
    kill = "${pkgs.coreutils}/bin/kill";
    sources = [ "/etc/singularity" ] ++ cfg.sources;
    inherit (cfg) credentials environment writable;
  };
in
{
  imports = [ (import ./options.nix { inherit package; }) ];

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    environment.etc."singularity/nix.json".source = cfg.manifest;

    users.users.singularity = {
      isSystemUser = true;
      group = "singularity";
      home = "/var/lib/singularity";
    };
    users.groups.singularity = { };

    systemd.services.singularity = {
      description = unit.Unit.Description;
      after = [ unit.Unit.After ];
      wants = [ unit.Unit.Wants ];
      wantedBy = [ unit.Install.WantedBy ];
      path = cfg.path;
      # An edit of the settings converges; nothing is restarted for it.
      reloadTriggers = [ cfg.manifest ];
      serviceConfig = unit.Service;
    };
  };
}
