//! What Nix writes is what the program reads: the library, the modules and the flake, evaluated by Nix itself without a network.
//!
//! nixpkgs is in no registry of packages, so `tests/nix/nixpkgs` stands in its place with what the modules use of it.
#![expect(clippy::disallowed_methods, reason = "a test runs Nix and lays out files")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};
use singularity::manifest::{Fleet, Overrides, Sources, manifest_schema, read};
use support::BINARY;
use tempfile::TempDir;

/// The variants that a field of several forms is written in: the most that one of them has.
const VARIANTS: usize = 3;

/// Nix with a store of its own.
#[derive(Debug)]
struct Nix {
    folder: TempDir,
}

impl Nix {
    /// `None`, said on stderr, where there is no Nix.
    ///
    /// # Panics
    /// When there is none and `CI=true`.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn new() -> Option<Self> {
        if let Err(error) = Command::new("nix-instantiate").arg("--version").output() {
            let why = format!("nix-instantiate cannot be run ({error}); `apt-get install nix-bin` brings it");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
            eprintln!("skipped: {why}");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("sg-nix-").tempdir().expect("a folder can be made");
        let conf = "sandbox = false\nbuild-users-group =\nsubstitute = false\nexperimental-features = nix-command flakes\n";
        fs::create_dir(folder.path().join("etc")).expect("a folder can be made");
        fs::write(folder.path().join("etc/nix.conf"), conf).expect("a file can be written");
        Some(Self { folder })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.at(name), text).expect("a file can be written");
        self.at(name)
    }

    /// Runs one of Nix's programs to its end: what it printed, or what it complained of.
    fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let places = [("STORE", "store"), ("STATE", "state"), ("LOG", "log"), ("CONF", "etc")];
        command.envs(places.map(|(name, place)| (format!("NIX_{name}_DIR"), self.at(place))));
        command.env("HOME", self.at("home")).env("XDG_CACHE_HOME", self.at("cache"));
        let output = command.output().expect("Nix starts");
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() { Ok(stdout) } else { Err(stderr) }
    }

    /// A value of `tests/nix/machine.nix`.
    fn machine(&self, value: &str, arguments: &[(&str, &Value)]) -> Result<Value, String> {
        self.evaluate(&self.of_machine(value, arguments))
    }

    fn of_machine(&self, value: &str, arguments: &[(&str, &Value)]) -> String {
        let given = arguments.iter().map(|(name, value)| match value {
            Value::Bool(flag) => format!("{name} = {flag};"),
            Value::String(text) => format!("{name} = {};", quoted(text)),
            other => format!("{name} = builtins.readFile {};", self.write(&format!("{name}.json"), &other.to_string()).display()),
        });
        let given: String = given.collect();
        format!("(import {root}/tests/nix/machine.nix {{ root = {root}; {given} }}).{value}", root = root().display())
    }

    fn evaluate(&self, expression: &str) -> Result<Value, String> {
        let text = self.run("nix-instantiate", &["--eval", "--strict", "--json", "-E", expression])?;
        serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))
    }

    /// The flake as a checkout has it, with the stand-in for nixpkgs beside it.
    fn flake(&self) -> PathBuf {
        let flake = self.at("flake");
        for part in [
            "flake.nix",
            "Cargo.toml",
            "Cargo.lock",
            "LICENSE",
            "README.md",
            "nix",
            "schemas",
            "examples",
            "kernel",
            "benches",
            "src",
            "tests/data",
        ] {
            copy(&root().join(part), &flake.join(part));
        }
        copy(&root().join("tests/nix/nixpkgs"), &self.at("nixpkgs"));
        flake
    }

    fn nix(&self, verb: &[&str], flake: &str, more: &[&str]) -> Result<String, String> {
        let nixpkgs = format!("path:{}", self.at("nixpkgs").display());
        let inputs = ["--no-write-lock-file", "--override-input", "nixpkgs", &nixpkgs, flake];
        self.run("nix", &[verb, &inputs, more].concat())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace("${", "\\${")
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("a folder around it")).expect("a folder can be made");
        fs::copy(from, to).expect("a file can be copied");
        return;
    }
    for entry in fs::read_dir(from).expect("a folder can be read").flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// What a manifest declares that stands in the folder `examples`.
fn fleet(name: &str, text: &str) -> Fleet {
    let loaded = read(&Sources::of_text(name, root().join("examples"), text), &Overrides::default());
    loaded.unwrap_or_else(|problems| panic!("{problems}\n{text}")).fleet
}

/// The TOML of a manifest as the value that Nix reads it as.
fn document(path: &Path) -> (String, Value) {
    let text = fs::read_to_string(path).expect("a manifest can be read");
    let value = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (text, value)
}

/// A value with every key that a schema has, a field of several forms in its `variant`th.
fn full(schema: &Value, variant: usize) -> Value {
    let field = resolved(schema);
    let all = |field: &Value| -> Map<String, Value> {
        let known = field["properties"].as_object().into_iter().flatten().filter(|(key, _)| *key != "$schema");
        let every: Map<String, Value> = known.map(|(key, node)| (key.clone(), full(node, variant))).collect();
        match field["maxProperties"].as_u64() {
            Some(_) => {
                every.iter().nth(variant % every.len()).map(|(key, value)| (key.clone(), value.clone())).into_iter().collect()
            }
            None => every,
        }
    };
    match kind(&field, variant) {
        "object" if field["properties"].is_object() => Value::Object(all(&field)),
        "object" => json!({ "one": full(&field["additionalProperties"], variant) }),
        "array" => json!([full(&field["items"], variant)]),
        "boolean" => json!(true),
        "integer" => field.get("minimum").cloned().unwrap_or(json!(1)),
        "number" => json!(0.5),
        _ => field.get("enum").map_or(json!("text"), |words| words[variant % words.as_array().map_or(1, Vec::len)].clone()),
    }
}

fn resolved(schema: &Value) -> Value {
    let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) else { return schema.clone() };
    manifest_schema().pointer(name).expect("a definition").clone()
}

fn kind(field: &Value, variant: usize) -> &str {
    let kinds = field["type"].as_array().map_or(std::slice::from_ref(&field["type"]), Vec::as_slice);
    kinds[variant % kinds.len()].as_str().expect("a type")
}

/// Every place of a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let inside: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (format!("{at}/{key}"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect(),
        _ => Vec::new(),
    };
    for (place, value) in inside {
        places(value, &place, found);
        found.push(place);
    }
}

#[test]
fn what_nix_says_is_what_toml_says() {
    let Some(nix) = Nix::new() else { return };
    let mut examples: Vec<PathBuf> = fs::read_dir("examples").expect("examples").flatten().map(|entry| entry.path()).collect();
    examples.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    examples.sort();
    let documents: Vec<(String, Value)> = examples.iter().map(|path| document(path)).collect();
    let settings: Value = documents.iter().map(|(_, value)| value.clone()).collect();
    let written = nix.machine("each", &[("tries", &settings)]).expect("every example is accepted");
    for ((text, _), written) in documents.iter().zip(written.as_array().expect("a list")) {
        let declared = fleet("example.toml", text);
        for way in ["module", "library"] {
            assert_eq!(fleet("example.json", written[way].as_str().expect("a text")), declared, "{way}");
        }
    }
    assert_eq!(documents.len(), written.as_array().map_or(0, Vec::len));
}

#[test]
fn the_example_in_nix_is_the_one_in_toml() {
    let Some(nix) = Nix::new() else { return };
    let written = nix.evaluate(&format!("import {}/nix/example.nix {{ }}", root().display())).expect("it needs no nixpkgs");
    let (text, _) = document(Path::new("examples/hello.toml"));
    assert_eq!(fleet("hello.json", written.as_str().expect("a text")), fleet("hello.toml", &text));
}

#[test]
fn no_key_of_a_manifest_is_missing_in_nix() {
    let Some(nix) = Nix::new() else { return };
    let everything: Value = (0..VARIANTS).map(|variant| full(manifest_schema(), variant)).collect();
    let written = nix.machine("each", &[("tries", &everything)]).expect("what fits the schema is accepted");
    for (given, written) in everything.as_array().expect("a list").iter().zip(written.as_array().expect("a list")) {
        for way in ["module", "library"] {
            let text = written[way].as_str().expect("a text");
            assert_eq!(&serde_json::from_str::<Value>(text).expect("JSON"), given, "{way}");
        }
    }
}

#[test]
fn no_wrong_type_and_no_unknown_key_gets_past_nix() {
    let Some(nix) = Nix::new() else { return };
    let (mut tried, mut wrong) = (Vec::new(), Vec::new());
    for variant in 0..VARIANTS {
        let whole = full(manifest_schema(), variant);
        let mut found = Vec::new();
        places(&whole, "", &mut found);
        // What a skill's body is told is of any type.
        for place in found.into_iter().filter(|place| !place.contains("/config/")) {
            let mut document = whole.clone();
            let value = document.pointer_mut(&place).expect("a place");
            // Nothing is a text and a number and a list of lists at once.
            let replacements: &[Value] = match value {
                Value::Object(_) if place.ends_with("/config") => &[json!(7)],
                Value::Object(_) => &[json!(7), json!({ "no-such-key": [[]] })],
                Value::Array(_) => &[json!(7), json!([[[]]])],
                Value::String(text) if text == "text" => &[json!(7), json!([[]])],
                // One of a few words.
                Value::String(_) => &[json!(7), json!("no such word")],
                _ => &[json!("text"), json!([[]])],
            };
            for replacement in replacements {
                *document.pointer_mut(&place).expect("a place") = replacement.clone();
                tried.push(document.clone());
                wrong.push(format!("{place} = {replacement}"));
            }
        }
    }
    let accepted = nix.machine("accepted", &[("tries", &Value::Array(tried))]).expect("refusing is no failure");
    for (what, accepted) in wrong.iter().zip(accepted.as_array().expect("a list")) {
        assert_eq!(accepted, &json!({ "module": false, "library": false }), "{what}");
    }
    assert!(wrong.len() > 500, "{}", wrong.len());
}

#[test]
fn a_refusal_says_where_and_what() {
    let Some(nix) = Nix::new() else { return };
    let lib = format!("with import {}/nix/lib.nix {{ }}; ", root().display());
    let told = |expression: &str| nix.evaluate(&format!("{lib}{expression}")).expect_err("it is refused");
    let faults = told(
        r#"toManifest (mkBeing "ada" { model = ./key; budget.starting = 5; cycle.max_tool_rounds = 0; prompt_policy = "x"; las.onyl = [ ]; })"#,
    );
    for fault in [
        "`being.ada.model` must be of type string or array, not path; a path without quotes is copied to where everyone can read it",
        "`being.ada.budget.starting` must be of type string, not integer",
        "`being.ada.cycle.max_tool_rounds` must be at least 1",
        "`being.ada.prompt_policy` must be one of birth, enforce, not x",
        "`being.ada.las.onyl` is not a key of a manifest; its neighbours are command, only, required, skip",
    ] {
        assert!(faults.contains(fault), "{fault}\n{faults}");
    }
    let twice = told(r#"toManifest [ (mkModel "smol" { }) (mkModel "smol" { }) ]"#);
    assert!(twice.contains("model/smol is declared twice; keep one of them"), "{twice}");
    let secrets = told(r#"toManifest (mkModel "far" { api_key = { file = "a"; env = "B"; }; })"#);
    assert!(secrets.contains("`model.far.api_key` must have at most 1 keys"), "{secrets}");
}

#[test]
fn a_manifest_that_the_program_refuses_stops_the_build() {
    let Some(nix) = Nix::new() else { return };
    let bin = nix.at("package/bin");
    fs::create_dir_all(&bin).expect("a folder can be made");
    symlink(BINARY, bin.join("singularity")).expect("a link can be made");
    let package = Value::from(nix.at("package").to_str().expect("a path is text"));
    let build = |settings: Value| {
        let expression = nix.of_machine("manifest", &[("services", &json!({ "settings": settings })), ("package", &package)]);
        nix.run("nix-build", &["--no-out-link", "-E", &expression])
    };
    let (text, hello) = document(Path::new("examples/hello.toml"));
    let built = build(hello).expect("a good manifest is built");
    let manifest = fs::read_to_string(built.trim()).expect("a file of the store");
    assert_eq!(fleet("hello.json", &manifest), fleet("hello.toml", &text));
    build(json!({})).expect("nothing declared is nothing wrong");
    let refused = build(json!({ "being": { "ada": { "model": "none" } } })).expect_err("no such model");
    assert!(refused.contains("model `none`"), "{refused}");
}

#[test]
fn the_shipped_unit_is_the_one_of_nix() {
    let Some(nix) = Nix::new() else { return };
    let shipped = nix.machine("shipped", &[]).expect("a unit");
    let path = root().join("packaging/singularity.service");
    if std::env::var("UPDATE").is_ok() {
        fs::write(&path, shipped.as_str().expect("a text")).expect("a file can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, shipped, "packaging/singularity.service is stale; run UPDATE=1 cargo test --test nix");
}

#[test]
fn the_service_of_nixos_is_confined_and_gets_secrets_by_path() {
    let Some(nix) = Nix::new() else { return };
    let services = json!({
        "credentials": { "model-key": "/run/agenix/100%" },
        "environment": { "RUST_LOG": "a=\"b\" %h" },
        "sources": ["/srv/the fleet"],
        "writable": ["/srv/ada"],
    });
    let unit = nix.machine("unit", &[("services", &services)]).expect("a service");
    let service = &unit["serviceConfig"];
    assert_eq!(service["LoadCredential"], json!(["model-key:/run/agenix/100%%"]));
    let variables = service["Environment"].as_array().expect("a list");
    assert!(variables.contains(&json!(r#""RUST_LOG=a=\"b\" %%h""#)), "{variables:?}");
    let start = service["ExecStart"].as_str().expect("a command");
    assert!(start.ends_with(r#"/bin/singularity serve /etc/singularity "/srv/the fleet""#), "{start}");
    assert_eq!(service["ReadWritePaths"], json!(["/srv/ada"]));
    assert!(unit["reloadTriggers"][0].is_string() && service["ExecReload"].is_string(), "an edit restarts nothing: {unit}");
    // All else is the unit that is shipped.
    let committed = fs::read_to_string(root().join("packaging/singularity.service")).expect("a unit");
    for (key, value) in service.as_object().expect("keys") {
        let (Value::String(_) | Value::Bool(_) | Value::Number(_)) = value else { continue };
        let line = format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
        assert!(key.starts_with("Exec") || committed.lines().any(|shipped| shipped == line), "{line}");
    }
    let etc = nix.machine("config.environment.etc", &[]).expect("files");
    assert!(etc["singularity/nix.json"]["source"].is_string(), "{etc}");
    let user = nix.machine("config.users.users.singularity", &[]).expect("a user");
    assert_eq!(user, json!({ "isSystemUser": true, "group": "singularity", "home": "/var/lib/singularity" }));
}

#[test]
fn the_service_of_a_user_keeps_its_state_in_the_users_home() {
    let Some(nix) = Nix::new() else { return };
    let services = json!({ "credentials": { "model-key": "/home/ada/key" } });
    let unit = nix.machine("userUnit", &[("services", &services), ("home", &json!(true))]).expect("a service");
    assert_eq!(unit["Service"]["LoadCredential"], json!(["model-key:/home/ada/key"]));
    assert_eq!(unit["Service"]["Environment"], json!([r#""SINGULARITY_HOME=%h/.local/state/singularity""#]));
    assert_eq!(unit["Install"]["WantedBy"], "default.target");
    for key in ["User", "CapabilityBoundingSet", "ProtectSystem"] {
        assert!(unit["Service"].get(key).is_none(), "{key} is not a user's to say");
    }
    let file = nix.machine("config.xdg.configFile", &[("home", &json!(true))]).expect("files");
    assert!(file["singularity/nix.json"]["source"].is_string(), "{file}");
}

#[test]
fn a_path_that_would_be_copied_for_all_to_read_is_refused_as_a_credential() {
    let Some(nix) = Nix::new() else { return };
    let key = nix.write("key", "secret");
    let expression = nix.of_machine("configured", &[]);
    let refused = nix.evaluate(&format!("({expression} {{ credentials.key = {}; }}).systemd.services", key.display()));
    let refused = refused.expect_err("it is refused");
    assert!(refused.contains("`services.singularity.credentials.key' is not of type `string'"), "{refused}");
}

#[test]
fn the_flake_is_whole() {
    let Some(nix) = Nix::new() else { return };
    let flake = format!("path:{}", nix.flake().display());
    nix.nix(&["flake", "check", "--no-build"], &flake, &[]).unwrap_or_else(|told| panic!("{told}"));
    let outputs = nix.nix(&["flake", "show", "--json"], &flake, &[]).unwrap_or_else(|told| panic!("{told}"));
    let outputs: Value = serde_json::from_str(&outputs).expect("JSON");
    for (kind, name) in [("packages", "default"), ("apps", "default"), ("devShells", "default"), ("checks", "examples")] {
        for system in ["x86_64-linux", "aarch64-linux"] {
            assert!(outputs[kind][system][name].is_object(), "{kind}.{system}.{name}: {outputs}");
        }
    }
    assert_eq!(outputs["nixosModules"]["default"]["type"], "nixos-module");
    for output in ["homeModules", "overlays", "lib"] {
        assert!(outputs.get(output).is_some(), "{output}");
    }
    let example = nix.nix(&["eval", "--raw"], &format!("{flake}#lib.example"), &[]).unwrap_or_else(|told| panic!("{told}"));
    let (text, _) = document(Path::new("examples/hello.toml"));
    assert_eq!(fleet("hello.json", &example), fleet("hello.toml", &text));
    let one = "lib: lib.toManifest (lib.mkBeing \"ada\" { model = \"smol\"; })";
    let one = nix.nix(&["eval", "--raw"], &format!("{flake}#lib"), &["--apply", one]).unwrap_or_else(|told| panic!("{told}"));
    assert_eq!(one, r#"{"being":{"ada":{"model":"smol"}}}"#);
}

#[test]
fn the_package_is_made_of_all_that_the_build_reads() {
    let Some(nix) = Nix::new() else { return };
    let flake = format!("path:{}", nix.flake().display());
    let package = "package: { inherit (package) name meta; files = builtins.attrNames (builtins.readDir package.src); }";
    let told = nix.nix(&["eval", "--json"], &format!("{flake}#packages.x86_64-linux.default"), &["--apply", package]);
    let told: Value = serde_json::from_str(&told.unwrap_or_else(|told| panic!("{told}"))).expect("JSON");
    assert_eq!(told["name"], concat!("singularity-", env!("CARGO_PKG_VERSION")));
    assert_eq!(told["meta"]["mainProgram"], "singularity");
    assert_eq!(told["files"], json!(["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "benches", "kernel", "src", "tests"]));
}
