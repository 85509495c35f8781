# The systemd unit, one for all: NixOS and Home Manager take its sections, `packaging/singularity.service` is its text.
{ program            # the binary
, sources            # folders and files of manifests
, credentials ? { }  # name → path; read by systemd as root, seen by the service alone
, environment ? { }  # more variables, as they are
, writable ? [ ]     # folders outside its own that beings work in
, kill ? "/bin/kill" # the program that sends signals
, user ? false       # a unit of the user's own manager, which cannot confine as much
}:
let
  inherit (builtins) attrNames concatMap concatStringsSep isBool isList map mapAttrs match replaceStrings toString;

  # An argument as ExecStart= takes it.
  quoted = text:
    if match "[A-Za-z0-9_./:@=,+-]+|%[A-Za-z]/[A-Za-z0-9_./-]*" text != null then text
    else ''"${replaceStrings [ "\\" "\"" "%" "$" ] [ "\\\\" "\\\"" "%%" "$$" ] text}"'';
  verbatim = replaceStrings [ "%" ] [ "%%" ];
  escaped = replaceStrings [ "\\" "\"" "\n" ] [ "\\\\" "\\\"" "\\n" ];
  assignments = variables: map (name: ''"${name}=${escaped variables.${name}}"'') (attrNames variables);

  # The state folder of a user's manager is another one in older versions of systemd, so it is not asked for it.
  own =
    if user then { SINGULARITY_HOME = "%h/.local/state/singularity"; }
    else { HOME = "%C/singularity"; SINGULARITY_HOME = "%S/singularity"; };

  confined = {
    User = "singularity";
    Group = "singularity";
    CapabilityBoundingSet = "";
    AmbientCapabilities = "";
    PrivateDevices = true;
    PrivateTmp = true;
    ProtectClock = true;
    ProtectControlGroups = true;
    ProtectHome = true;
    ProtectHostname = true;
    ProtectKernelLogs = true;
    ProtectKernelModules = true;
    ProtectKernelTunables = true;
    ProtectProc = "invisible";
    ProtectSystem = "strict";
    ReadWritePaths = map verbatim writable;
    StateDirectory = "singularity";
    StateDirectoryMode = "0700";
    CacheDirectory = "singularity";
    CacheDirectoryMode = "0700";
    ConfigurationDirectory = "singularity";
    RemoveIPC = true;
    # Node asks netlink for the interfaces of the machine.
    RestrictAddressFamilies = "AF_UNIX AF_INET AF_INET6 AF_NETLINK";
    RestrictNamespaces = true;
    # The program confines its MCP servers itself. Not MemoryDenyWriteExecute=: many of them are JavaScript, compiled as it runs.
    SystemCallFilter = "@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp";
    SystemCallErrorNumber = "EPERM";
  };

  sections = {
    Unit = {
      Description = "GitOps for autonomous agents";
      Documentation = "man:singularity(1)";
    } // (if user then { } else {
      After = "network-online.target";
      Wants = "network-online.target";
    });
    Service = {
      Type = "notify";
      ExecStart = concatStringsSep " " (map quoted ([ program "serve" ] ++ sources));
      ExecReload = "${kill} -HUP $MAINPID";
      # A home that was left by a crash is brought in order first.
      TimeoutStartSec = 600;
      # The reconciler itself has to give the signs of life.
      WatchdogSec = 120;
      # Exit code 2 is a fault of the configuration, which another try does not mend.
      Restart = "on-failure";
      RestartPreventExitStatus = 2;
      RestartSec = 2;
      # The daemon ends its beings and their servers; what is left after the time is killed.
      KillMode = "mixed";
      TimeoutStopSec = 60;
      # An MCP server that takes too much memory ends alone.
      OOMPolicy = "continue";
      WorkingDirectory = if user then "%h" else "%S/singularity";
      UMask = "0077";
      LockPersonality = true;
      NoNewPrivileges = true;
      RestrictRealtime = true;
      RestrictSUIDSGID = true;
      SystemCallArchitectures = "native";
      Environment = assignments (own // mapAttrs (_: verbatim) environment);
      LoadCredential = map (name: "${name}:${verbatim credentials.${name}}") (attrNames credentials);
    } // (if user then { } else confined);
    Install.WantedBy = if user then "default.target" else "multi-user.target";
  };

  lines = section: name:
    let value = section.${name}; in
    map (one: "${name}=${if isBool one then (if one then "true" else "false") else toString one}")
      (if isList value then value else [ value ]);
  text = concatStringsSep "\n" (map
    (name: concatStringsSep "" (map (line: "${line}\n") ([ "[${name}]" ] ++ concatMap (lines sections.${name}) (attrNames sections.${name}))))
    [ "Unit" "Service" "Install" ]);
in
sections // { inherit text; }
