# The part of nixpkgs' `lib` that the modules use, with its names, its rules of merging and the wording of its errors.
let
  inherit (builtins)
    all any attrNames attrValues concatLists concatMap concatStringsSep elem filter foldl' functionArgs genList head
    isAttrs isBool isFloat isFunction isInt isList isString length listToAttrs map mapAttrs removeAttrs substring stringLength
    tail toJSON toString typeOf zipAttrsWith;

  isDerivation = value: isAttrs value && value.type or "" == "derivation";
  isKind = kind: value: isAttrs value && value._type or "" == kind;
  isOption = isKind "option";
  show = concatStringsSep ".";

  # Conditions and joints taken out: the plain definitions that are left.
  discharged = value:
    if isKind "if" value then (if value.condition then discharged value.content else [ ])
    else if isKind "merge" value then concatMap discharged value.contents
    else [ value ];
  # The same for a tree, but conditions are pushed down to its leaves: they may depend on other leaves.
  pushedDown = value:
    if isKind "if" value then map (mapAttrs (_: content: value // { inherit content; })) (pushedDown value.content)
    else if isKind "merge" value then concatMap pushedDown value.contents
    else [ value ];
  priorityOf = value: if isKind "override" value then value.priority else 100;
  contentOf = value: if isKind "override" value then value.content else value;
  winners = definitions:
    let least = foldl' (least: value: if priorityOf value < least then priorityOf value else least) 9999 definitions;
    in map contentOf (filter (value: priorityOf value == least) definitions);

  # One value of one type out of all its definitions.
  merged = path: type: definitions:
    let
      values = winners (concatMap discharged definitions);
      wrong = filter (value: !type.check value) values;
      printed = value: if isFunction value then "<function>" else toJSON value;
    in
    if values == [ ] then throw "The option `${show path}' is used but not defined."
    else if wrong != [ ] then
      throw "A definition for option `${show path}' is not of type `${type.description}'. Definition values:\n- ${concatStringsSep "\n- " (map printed wrong)}"
    else type.merge path values;

  evalOption = path: option: definitions:
    if option.readOnly or false && length definitions > 1 then throw "The option `${show path}' is read-only, but it's set multiple times."
    else merged path option.type (definitions ++ (if option ? default then [ (override 1500 option.default) ] else [ ]));

  override = priority: content: { _type = "override"; inherit priority content; };

  # A tree of options with its definitions; what no option is there for is refused.
  evalTree = path: trees: definitions:
    let
      plain = concatMap pushedDown definitions;
      declared = zipAttrsWith (_: found: found) trees;
      under = name: concatMap (value: if value ? ${name} then [ value.${name} ] else [ ]) plain;
      strange = filter (name: !(declared ? ${name})) (concatMap attrNames plain);
      result = mapAttrs
        (name: found:
          let options = filter isOption found; in
          if length options > 1 then throw "The option `${show (path ++ [ name ])}' is already declared."
          else if options != [ ] then evalOption (path ++ [ name ]) (head options) (under name)
          else evalTree (path ++ [ name ]) found (under name))
        declared;
    in
    if strange == [ ] then result else throw "The option `${show (path ++ [ (head strange) ])}' does not exist.";

  # Modules as they are written, imports first; each as options and a definition.
  loaded = arguments: module:
    let
      read = if typeOf module == "path" || isString module then import module else module;
      called = if isFunction read then read arguments else read;
      isLong = called ? options || called ? config || called ? imports;
      body = if isLong then { options = called.options or { }; config = called.config or { }; } else { options = { }; config = called; };
    in
    concatMap (loaded arguments) (called.imports or [ ]) ++ [ body ];

  evalModules = { modules, specialArgs ? { }, prefix ? [ ] }:
    let
      all = concatMap (loaded ({ inherit lib config; options = { }; } // specialArgs)) modules;
      config = evalTree prefix (map (module: module.options) all) (map (module: module.config) all);
    in
    { inherit config; };

  equal = path: values:
    if all (value: value == head values) values then head values
    else throw "The option `${show path}' has conflicting definition values.";
  scalar = description: check: { inherit description check; merge = equal; };
  between = kind: check: least: most:
    scalar "${kind} between ${toString least} and ${toString most} (both inclusive)" (value: check value && value >= least && value <= most);
  isNumber = value: isInt value || isFloat value;

  types = rec {
    str = scalar "string" isString;
    nonEmptyStr = scalar "non-empty string" (value: isString value && value != "");
    bool = scalar "boolean" isBool;
    int = scalar "signed integer" isInt;
    ints.between = between "integer" isInt;
    number = scalar "signed integer or floating point number" isNumber;
    numbers.between = between "integer or floating point number" isNumber;
    enum = values: scalar "one of ${concatStringsSep ", " (map toJSON values)}" (value: elem value values);
    package = scalar "package" (value: isDerivation value || isString value && substring 0 1 value == "/");
    unspecified = {
      description = "unspecified value";
      check = _: true;
      merge = path: values: if length values == 1 then head values else equal path values;
    };
    addCheck = type: check: type // { check = value: type.check value && check value; };
    nullOr = type: {
      description = "null or ${type.description}";
      check = value: value == null || type.check value;
      merge = path: values: if all (value: value == null) values then null
        else if any (value: value == null) values then throw "The option `${show path}' is defined both null and not null."
        else type.merge path values;
    };
    either = one: other: {
      description = "${one.description} or ${other.description}";
      check = value: one.check value || other.check value;
      merge = path: values: if all one.check values then one.merge path values
        else if all other.check values then other.merge path values else equal path values;
    };
    listOf = type: {
      description = "list of ${type.description}";
      check = isList;
      merge = path: values:
        let items = concatLists values; in
        genList (index: merged (path ++ [ "[definition ${toString (index + 1)}-entry]" ]) type [ (builtins.elemAt items index) ]) (length items);
    };
    attrsOf = type: {
      description = "attribute set of ${type.description}";
      check = isAttrs;
      merge = path: values:
        let found = zipAttrsWith (_: bodies: concatMap discharged bodies) values; in
        mapAttrs (name: merged (path ++ [ name ]) type) (listToAttrs (concatMap
          (name: if found.${name} == [ ] then [ ] else [{ inherit name; value = found.${name}; }])
          (attrNames found)));
    };
    submodule = module: {
      description = "submodule";
      check = value: isAttrs value || isFunction value;
      merge = path: values: (evalModules {
        modules = [ module ] ++ map (value: if isAttrs value then { config = value; } else value) values;
        prefix = path;
      }).config;
    };
  };

  lib = rec {
    inherit evalModules isDerivation types;
    mkOption = option: option // { _type = "option"; };
    mkEnableOption = what: mkOption { type = types.bool; default = false; description = "Whether to enable ${what}."; };
    mkIf = condition: content: { _type = "if"; inherit condition content; };
    mkMerge = contents: { _type = "merge"; inherit contents; };
    mkDefault = override 1000;
    mkForce = override 50;
    literalExpression = text: { _type = "literalExpression"; inherit text; };
    genAttrs = names: make: listToAttrs (map (name: { inherit name; value = make name; }) names);
    optionalAttrs = condition: set: if condition then set else { };
    hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
    makeBinPath = packages: concatStringsSep ":" (map (package: "${package}/bin") packages);
    callPackageWith = packages: function: arguments:
      let made = if isFunction function then function else import function; in
      made (builtins.intersectAttrs (functionArgs made) packages // arguments);
    cleanSourceWith = { src, filter }: builtins.path { name = "source"; path = src; inherit filter; };
    licenses.asl20 = { spdxId = "Apache-2.0"; };
    platforms.linux = [ "x86_64-linux" "aarch64-linux" ];

    # A machine with the options of NixOS that the module sets, and nothing else.
    nixosSystem = { modules, pkgs }:
      let anything = mkOption { type = types.attrsOf types.unspecified; default = { }; }; in
      evalModules {
        specialArgs = { inherit pkgs; };
        modules = modules ++ [{
          options = {
            environment.etc = anything;
            environment.systemPackages = mkOption { type = types.listOf types.package; default = [ ]; };
            users.users = anything;
            users.groups = anything;
            systemd.services = anything;
          };
        }];
      };

    # A user with those of Home Manager.
    homeManagerConfiguration = { pkgs, modules }:
      let anything = mkOption { type = types.attrsOf types.unspecified; default = { }; }; in
      evalModules {
        specialArgs = { inherit pkgs; };
        modules = modules ++ [{
          options = {
            home.packages = mkOption { type = types.listOf types.package; default = [ ]; };
            xdg.configFile = anything;
            systemd.user.services = anything;
          };
        }];
      };
  };
in
lib
