# The Home Manager module: a daemon of the user's own.
{ package }:
{ config, lib, pkgs, ... }:
let
  cfg = config.services.singularity;
  unit = import ./unit.nix {
    program = "${cfg.package}/bin/singularity";
    kill = "${pkgs.coreutils}/bin/kill";
    sources = [ "%E/singularity" ] ++ cfg.sources;
    inherit (cfg) credentials;
    environment = lib.optionalAttrs (cfg.path != [ ]) { PATH = "${lib.makeBinPath cfg.path}:/run/current-system/sw/bin:/usr/bin:/bin"; }
      // cfg.environment;
    user = true;
  };
in
{
  imports = [ (import ./options.nix { inherit package; }) ];

  config = lib.mkIf cfg.enable {
    home.packages = [ cfg.package ];
    xdg.configFile."singularity/nix.json".source = cfg.manifest;
    systemd.user.services.singularity = { inherit (unit) Unit Service Install; };
  };
}
