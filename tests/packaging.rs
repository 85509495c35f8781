//! What the Debian package and the image are made of is there: a file that was moved is missed here, and not by who builds them.
#![expect(clippy::expect_used, reason = "a test may fail")]

use std::{collections::BTreeSet, fs, path::Path};

use globset::Glob;
use toml::{Table, Value};

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{path}: {error}"))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether the tree has a file that a pattern means.
fn is_there(pattern: &str) -> bool {
    let glob = Glob::new(pattern).expect("a glob").compile_matcher();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(root.join(Path::new(pattern).parent().expect("a folder"))).into_iter().flatten().flatten();
    files.map(|entry| entry.path()).any(|path| path.strip_prefix(root).is_ok_and(|path| glob.is_match(path)))
}

#[test]
fn the_debian_package_finds_all_that_it_carries() {
    let manifest: Table = text("Cargo.toml").parse().expect("TOML");
    let package = &manifest["package"]["metadata"]["deb"];
    let script = text("packaging/build-deb");
    let assets = package["assets"].as_array().expect("assets");
    for asset in assets {
        let source = strings(asset)[0];
        match source.strip_prefix("target/packaging/") {
            // Made by the script, under the name that it has there.
            Some(made) => assert!(script.contains(made.trim_end_matches("/*.1")), "packaging/build-deb does not make {source}"),
            None => assert!(source == "target/release/singularity" || is_there(source), "there is no {source}"),
        }
    }
    let unit = format!("{}/singularity.service", package["systemd-units"]["unit-scripts"].as_str().expect("a folder"));
    assert!(is_there(&unit), "there is no {unit}");
    let carried: BTreeSet<String> = assets.iter().map(|asset| strings(asset)[1].trim_end_matches('/').to_owned()).collect();
    for file in strings(&package["conf-files"]) {
        let folder = Path::new(file.trim_start_matches('/')).parent().expect("a folder").display().to_string();
        assert!(carried.contains(&folder), "{file} is not carried");
    }
}

#[test]
fn the_user_of_the_unit_is_the_one_that_the_package_makes() {
    let user = text("packaging/singularity.sysusers");
    let name = user.split_whitespace().nth(1).expect("a name");
    assert!(text("packaging/singularity.service").contains(&format!("\nUser={name}\n")), "{user}");
}

#[test]
fn the_image_is_built_of_what_is_let_in_and_of_all_that_the_nix_package_is_built_of() {
    let (image, ignored, nix) = (text("Dockerfile"), text(".dockerignore"), text("nix/package.nix"));
    let copied: BTreeSet<&str> = image
        .lines()
        .filter(|line| line.starts_with("COPY ") && !line.contains("--from"))
        .flat_map(|line| line.split_whitespace().skip(1).filter(|part| Path::new(part).exists() && *part != "./"))
        .collect();
    let let_in: BTreeSet<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert_eq!(copied, let_in);
    let parts = nix.split("parts = [").nth(1).and_then(|rest| rest.split(']').next()).expect("parts");
    let documents = ["LICENSE", "README.md"];
    let parts: BTreeSet<&str> = parts.split('"').filter(|part| !part.trim().is_empty() && !documents.contains(part)).collect();
    assert_eq!(copied, parts);
}

#[test]
fn all_that_the_program_is_compiled_from_is_let_into_the_image() {
    let let_in: Vec<String> = text(".dockerignore").lines().filter_map(|line| line.strip_prefix('!').map(str::to_owned)).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut outside) = (vec![root.join("src"), root.join("kernel/src")], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // What tests alone are compiled from may stand anywhere.
            if !name.ends_with(".rs") || name.ends_with("tests.rs") || path.parent().is_some_and(|folder| folder.ends_with("tests"))
            {
                continue;
            }
            let code = fs::read_to_string(&path).expect("source");
            for included in code.split("include_str!(\"").chain(code.split("include_bytes!(\"")).skip(1) {
                let Some((to, _)) = included.split_once("\")") else { continue };
                let Ok(file) = path.with_file_name(to).canonicalize() else { continue };
                let within = file.strip_prefix(root).expect("a file of the repository");
                assert!(let_in.iter().any(|part| within.starts_with(part)), "{} is compiled in, and not let in", within.display());
                outside += usize::from(to.starts_with("../"));
            }
        }
    }
    assert!(outside > 0, "nothing was found");
}
