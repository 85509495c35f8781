# Manifests as Nix values, checked against the schema that the program itself goes by.
# Needs neither the flake nor nixpkgs:
#
#   nix-instantiate --eval --strict -E 'with import ./nix/lib.nix { }; toManifest (mkBeing "ada" { model = "smol"; })'
{ schema ? builtins.fromJSON (builtins.readFile ../schemas/manifest.schema.json) }:
let
  inherit (builtins)
    all any attrNames baseNameOf concatLists concatMap concatStringsSep elem elemAt filter genList head isAttrs isList
    isString length listToAttrs map mapAttrs removeAttrs stringLength toJSON toString typeOf zipAttrsWith;

  toList = value: if isList value then value else [ value ];

  # The schema of a field, what it refers to filled in.
  resolve = node:
    if node ? "$ref" then resolve schema."$defs".${baseNameOf node."$ref"} // removeAttrs node [ "$ref" ] else node;

  kindOf = value:
    { bool = "boolean"; int = "integer"; float = "number"; set = "object"; list = "array"; }.${typeOf value} or (typeOf value);
  isOf = value: kind: kind == kindOf value || kind == "number" && kindOf value == "integer";

  # Fields that are left out are `null` where the module system filled a form in.
  prune = value:
    if isAttrs value then
      mapAttrs (_: prune) (listToAttrs (map (name: { inherit name; value = value.${name}; })
        (filter (name: value.${name} != null) (attrNames value))))
    else if isList value then map prune value
    else value;

  outside = size: least: most: what:
    if size < least then [ "must have at least ${toString least} ${what}" ]
    else if most != null && size > most then [ "must have at most ${toString most} ${what}" ]
    else [ ];

  # All that is wrong with a value, each with its place. Rules of form (URLs, globs, spans, amounts) are left to `singularity validate`.
  misfits = place: node: value:
    let
      field = resolve node;
      kinds = toList field.type;
      at = map (fault: "`${place}` ${fault}");
      known = field.properties or { };
      under = name: if place == "" then name else "${place}.${name}";
      inObject = concatMap
        (name:
          if known ? ${name} then misfits (under name) known.${name} value.${name}
          else if isAttrs (field.additionalProperties or false) then misfits (under name) field.additionalProperties value.${name}
          else [ "`${under name}` is not a key of a manifest; its neighbours are ${concatStringsSep ", " (attrNames known)}" ])
        (attrNames value);
      inList = concatLists (genList (index: misfits "${place}.${toString index}" field.items (elemAt value index)) (length value));
    in
    if !any (isOf value) kinds then
      at [
        ("must be of type ${concatStringsSep " or " kinds}, not ${kindOf value}"
          + (if typeOf value == "path" then "; a path without quotes is copied to where everyone can read it" else ""))
      ]
    else if isAttrs value then
      at (outside (length (attrNames value)) (field.minProperties or 0) (field.maxProperties or null) "keys") ++ inObject
    else if isList value then at (outside (length value) (field.minItems or 0) (field.maxItems or null) "items") ++ inList
    else if field ? enum && !elem value field.enum then at [ "must be one of ${concatStringsSep ", " field.enum}, not ${value}" ]
    else if isString value then at (outside (stringLength value) (field.minLength or 0) (field.maxLength or null) "bytes")
    else if field ? minimum && value < field.minimum then at [ "must be at least ${toString field.minimum}" ]
    else if field ? maximum && value > field.maximum then at [ "must be at most ${toString field.maximum}" ]
    else [ ];

  declare = kind: name: body: { ${kind}.${name} = body; };
in
rec {
  inherit schema resolve;

  # One object each, as a manifest of its own: `mkBeing "ada" { model = "smol"; }`.
  mkModel = declare "model";
  mkSurface = declare "surface";
  mkCap = declare "cap";
  mkDecision = declare "decision";
  mkCategory = declare "category";
  mkSource = declare "source";
  mkBeing = declare "being";

  # A secret that systemd hands over: LoadCredential= of its unit, or `services.singularity.credentials` on NixOS.
  credential = name: { credential = name; };

  # Several manifests as one. What two of them declare is an error, as it is between files.
  merge = documents:
    let
      once = kind: name: bodies:
        if length bodies == 1 then head bodies else throw "singularity: ${kind}/${name} is declared twice; keep one of them";
      plain = document:
        if isAttrs document && all isAttrs (builtins.attrValues (removeAttrs document [ "$schema" ]))
        then removeAttrs document [ "$schema" ]
        else throw "singularity: a manifest is a set of sets, such as { being.ada = { model = \"smol\"; }; }";
    in
    zipAttrsWith (kind: zipAttrsWith (once kind)) (map plain documents);

  # What is wrong with a manifest, as sentences.
  problems = document: misfits "" schema (prune document);

  # The text of a manifest, in JSON: of one value, or of a list of them merged.
  toManifest = documents:
    let
      document = merge (map prune (toList documents));
      faults = problems document;
    in
    if faults == [ ] then toJSON document
    else throw "singularity: the manifest does not fit its schema:\n${concatStringsSep "\n" (map (fault: "  ${fault}") faults)}";
}
