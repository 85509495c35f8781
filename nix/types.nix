# The options of a manifest, made from its schema: what the program accepts is what the module has, with the same words.
{ lib, manifests ? import ./lib.nix { } }:
let
  inherit (lib) types;
  inherit (manifests) resolve;
  inherit (builtins) foldl' head isAttrs isList mapAttrs removeAttrs tail toJSON;

  # The schema of a field, held to one of the types that it allows.
  narrowed = field: kind:
    { type = kind; }
    // removeAttrs field ([ "type" ] ++ (if kind == "object" then [ ] else [ "properties" "additionalProperties" ]));

  number = plain: between: field:
    if field ? minimum && field ? maximum then between field.minimum field.maximum
    else if field ? minimum then types.addCheck plain (value: value >= field.minimum)
    else plain;

  ofKind = {
    string = field:
      if field ? enum then types.enum field.enum
      else if field ? minLength then types.nonEmptyStr
      else types.str;
    boolean = _: types.bool;
    integer = number types.int types.ints.between;
    number = number types.number types.numbers.between;
    array = field: types.listOf (typeOf field.items);
    object = field:
      if field ? properties then types.submodule { options = optionsOf field; }
      else types.attrsOf (typeOf field.additionalProperties);
  };

  typeOf = node:
    let
      field = resolve node;
      kinds = if isList field.type then field.type else [ field.type ];
      each = map (kind: ofKind.${kind} (narrowed field kind)) kinds;
    in
    # What takes any value names itself in its schema, and has no end.
    if field.x-any or false then types.unspecified else foldl' types.either (head each) (tail each);

  optionOf = node:
    let field = resolve node; in
    lib.mkOption ({
      type = types.nullOr (typeOf node);
      default = null;
      description = field.description
        + (if field ? default then " Unless said otherwise: `${toJSON field.default}`." else "");
    } // (if field ? examples then { example = head field.examples; } else { }));

  # Objects by name are merged over modules, so they are there even when empty.
  kindOf = node: optionOf node // {
    type = typeOf node;
    default = { };
  };

  optionsOf = field: mapAttrs (_: node: (if node.x-named or false then kindOf else optionOf) node) field.properties;
in
{
  inherit typeOf;
  # A whole manifest. `$schema` is for editors of files alone.
  manifest = types.submodule {
    options = optionsOf (manifests.schema // { properties = removeAttrs manifests.schema.properties [ "$schema" ]; });
  };
}
