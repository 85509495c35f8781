use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    BeingSpec, Fleet, Problem, Problems,
    category::{self, CategoryDocument},
    check::{Cx, Declared},
    decision::{self, DecisionDocument},
    document::{BeingDocument, CapDocument, ModelDocument, SurfaceDocument},
    layer::{LayerPart, Merged},
    load::{Form, Source, Sources},
    origin::{Field, Layer, Origin, Origins, steps},
    problem::{Place, line_starts, quoted},
    resolve,
    schema::DEFAULTS,
    settings::{BARE_SECRET, Variables, document_of, setting_at},
    shape::misfits,
    source::{self, SourceDocument},
    text::{Node, Shape, read_json, read_toml},
};
use crate::vocab::{Address, Kind, Name};

/// What lies over the files: variables, then flags.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The one being that is run; only it takes the settings of a being. A fleet takes those of its models and surfaces alone.
    pub being: Option<Name>,
    pub variables: Variables,
    /// Flags under the names of their variables.
    pub flags: Variables,
    /// Where relative paths of variables and flags start from.
    pub folder: PathBuf,
}

/// A fleet, and where each of its values came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub fleet: Fleet,
    pub origins: Origins,
}

/// A file after parsing, without what did not fit.
pub(crate) struct Parsed<'a> {
    pub source: &'a Source,
    pub root: Node,
    /// Dotted paths of what was taken out, so that it is not reported missing.
    pub maimed: BTreeSet<String>,
    is_broken: bool,
    /// The byte at which each line starts.
    lines: Vec<usize>,
    /// Where secrets stand that have no place in a manifest, in the order of the text.
    hidden: Vec<Range<usize>>,
}

impl<'a> Parsed<'a> {
    /// The place of a span.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        Place::among(&self.source.text, &self.lines, span, &self.hidden)
    }

    /// Takes out what does not fit.
    fn take_out(&mut self, cut: &[Vec<String>]) {
        for path in cut {
            let steps: Vec<&str> = path.iter().map(String::as_str).collect();
            self.root.prune(&steps);
            self.maimed.extend((1..=steps.len()).map(|length| steps.iter().take(length).copied().collect::<Vec<_>>().join(".")));
        }
    }

    /// The line, from 1, that holds a byte.
    fn line_of(&self, byte: usize) -> usize {
        self.lines.partition_point(|start| *start <= byte)
    }
}

/// One object before it is resolved.
struct Object {
    address: Address,
    parts: Vec<LayerPart>,
}

/// Turns texts into a fleet: every layer merged, every reference resolved. With any problem there is no fleet, and all problems of all files.
///
/// Pure: the same sources and overrides give the same result. It costs one parse, one pass of the schema and one merge for each object.
pub fn read(sources: &Sources, overrides: &Overrides) -> Result<Loaded, Problems> {
    let mut problems: Vec<Problem> = sources.problems.clone();
    let files: Vec<Parsed<'_>> = sources.files.iter().map(|source| parse(source, &mut problems)).collect();
    let objects = declared_objects(&files, &mut problems);
    let is_whole = problems.is_empty() || files.iter().all(|file| !file.is_broken) && sources.problems.is_empty();
    resolve_all(&files, objects, is_whole, overrides, problems)
}

/// The names of the Git sources that some texts declare, right or wrong; `None` where one of the texts cannot be parsed. It costs a parse of
/// those that mention any.
pub fn sources_named(sources: &Sources) -> Option<BTreeSet<Name>> {
    let kind = Kind::Source.as_str();
    let mut names = BTreeSet::new();
    for source in sources.files.iter().filter(|source| source.text.contains(kind)) {
        let (root, faults) = match source.form {
            Form::Toml => read_toml(&source.text),
            Form::Json => read_json(&source.text),
        };
        if !faults.is_empty() {
            return None;
        }
        let declared = root.get(kind).into_iter().flat_map(|entry| entry.node.entries());
        names.extend(declared.filter_map(|entry| Name::try_from(entry.key.as_str()).ok()));
    }
    Some(names)
}

/// The fleet of one being, `being/agent`, that variables and flags alone describe (SPEC §13): a Brama model, and the Las that `LAS_COMMAND` and
/// `LAS_MCP_ENTRYPOINT` name, if any.
pub fn from_variables(overrides: &Overrides) -> Result<Loaded, Problems> {
    let said = |name: &str| overrides.flags.get(name).or_else(|| overrides.variables.get(name));
    let entrypoint = said("LAS_MCP_ENTRYPOINT").map(|path| overrides.folder.join(path).to_string_lossy().into_owned());
    let las: Vec<String> = match (said("LAS_COMMAND"), entrypoint) {
        (None, None) => Vec::new(),
        (command, entrypoint) => std::iter::once(command.unwrap_or("node").to_owned()).chain(entrypoint).collect(),
    };
    let mut problems = Vec::new();
    let mut model = json!({ "provider": "brama" });
    if said("BRAMA_HMAC_SECRET_FILE").is_none() {
        model = json!({ "provider": "brama", "hmac_secret": { "env": BARE_SECRET } });
        if said(BARE_SECRET).is_none() {
            problems.push(Problem::of_setting(format!("secret file: BRAMA_HMAC_SECRET_FILE or {BARE_SECRET} is required")));
        }
    }
    let las = if las.is_empty() { json!({ "only": [] }) } else { json!({ "command": las }) };
    let being = json!({ "model": "brama", "workspace": ".", "las": las });
    let Ok(brama) = Name::try_from("brama") else { return Err(Problems::default()) };
    let Ok(agent) = Name::try_from("agent") else { return Err(Problems::default()) };
    let object = |kind: Kind, name: &Name, value: Value| Object {
        address: Address::new(kind, name.clone()),
        parts: vec![part(Layer::BuiltIn, built_in(kind)), part(Layer::BuiltIn, value)],
    };
    let objects = vec![object(Kind::Model, &brama, model), object(Kind::Being, &agent, being)];
    let overrides = Overrides { being: Some(agent), ..overrides.clone() };
    resolve_all(&[], objects, true, &overrides, problems)
}

fn part(layer: Layer, value: Value) -> LayerPart {
    LayerPart { layer, file: None, prefix: Vec::new(), value }
}

fn built_in(kind: Kind) -> Value {
    DEFAULTS.get(kind.as_str()).cloned().unwrap_or_else(|| json!({}))
}

fn parse<'a>(source: &'a Source, problems: &mut Vec<Problem>) -> Parsed<'a> {
    let (root, faults) = match source.form {
        Form::Toml => read_toml(&source.text),
        Form::Json => read_json(&source.text),
    };
    let lines = line_starts(&source.text);
    if !faults.is_empty() {
        let at = |span: &Range<usize>| Some(Place::among(&source.text, &lines, span, &[]));
        let mut told_lines = BTreeSet::new();
        let told =
            faults.into_iter().map(|fault| Problem { place: at(&fault.span), ..Problem::of_file(&source.path, fault.message) });
        problems.extend(told.filter(|problem| told_lines.insert(problem.place.as_ref().map(|place| place.line))));
        return Parsed { source, root, maimed: BTreeSet::new(), is_broken: true, lines, hidden: Vec::new() };
    }
    let mut cut = dates(&root, &mut Vec::new());
    let dated: Vec<_> = cut.iter().map(|path| root.span_of(path, false)).collect();
    let mut file = Parsed { source, root, maimed: BTreeSet::new(), is_broken: false, lines, hidden: Vec::new() };
    file.take_out(&cut);
    let found = misfits(&file.root.value());
    let hidden = found.iter().filter(|misfit| misfit.secret).map(|misfit| file.root.span_of(&misfit.path, false));
    file.hidden = hidden.collect();
    file.hidden.sort_by_key(|hidden| hidden.start);
    for (path, span) in cut.iter().zip(&dated) {
        let message = format!("{} is a date; no key of a manifest holds one", quoted(path.last().map_or("", String::as_str)));
        let place = Some(file.place(span));
        problems.push(Problem { place, ..Problem::of_file(&source.path, message) }.hint("write it in quotes"));
    }
    for misfit in &found {
        let place = Some(file.place(&file.root.span_of(&misfit.path, misfit.at_key)));
        problems.push(Problem { place, hint: misfit.hint.clone(), ..Problem::of_file(&source.path, misfit.message.clone()) });
    }
    cut = found.into_iter().map(|misfit| misfit.path).collect();
    file.take_out(&cut);
    file
}

/// Paths of dates, which JSON has no word for.
fn dates(node: &Node, path: &mut Vec<String>) -> Vec<Vec<String>> {
    let children: Vec<(String, &Node)> = match &node.shape {
        Shape::Datetime => return vec![path.clone()],
        Shape::Leaf(_) => return Vec::new(),
        Shape::Table(entries) => entries.iter().map(|entry| (entry.key.clone(), &entry.node)).collect(),
        Shape::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
    };
    let mut found = Vec::new();
    for (key, child) in children {
        path.push(key);
        found.extend(dates(child, path));
        path.pop();
    }
    found
}

/// Every object of every file with its layers, and the addresses that are declared twice.
fn declared_objects(files: &[Parsed<'_>], problems: &mut Vec<Problem>) -> Vec<Object> {
    let mut first: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut objects = Vec::new();
    for (at, file) in files.iter().enumerate() {
        for table in file.root.entries().iter().filter(|entry| !entry.key.starts_with('$')) {
            for object in table.node.entries() {
                let key = (table.key.clone(), object.key.clone());
                if let Some(earlier) = first.get(&key) {
                    problems.push(declared_twice(files, *earlier, at, &key));
                    continue;
                }
                first.insert(key, at);
                let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == table.key);
                let (Some(kind), Ok(name)) = (kind, Name::try_from(object.key.as_str())) else { continue };
                let prefix = vec![table.key.clone(), object.key.clone()];
                let own = LayerPart { layer: Layer::Object, file: Some(at), prefix, value: object.node.value() };
                objects.push(Object { address: Address::new(kind, name), parts: vec![part(Layer::BuiltIn, built_in(kind)), own] });
            }
        }
    }
    for object in &mut objects {
        let kind = object.address.kind.as_str();
        let Some(at) = first.get(&("defaults".to_owned(), kind.to_owned())) else { continue };
        let Some(value) = files.get(*at).and_then(|file| Some(file.root.get("defaults")?.node.get(kind)?.node.value())) else {
            continue;
        };
        let prefix = vec!["defaults".to_owned(), kind.to_owned()];
        object.parts.insert(1, LayerPart { layer: Layer::Defaults, file: Some(*at), prefix, value });
    }
    objects
}

fn declared_twice(files: &[Parsed<'_>], earlier: usize, later: usize, key: &(String, String)) -> Problem {
    let place = |at: usize| {
        let file = files.get(at)?;
        let span = file.root.span_of(&[key.0.clone(), key.1.clone()], true);
        Some((file.source.path.clone(), file.place(&span)))
    };
    let first =
        place(earlier).map(|(path, place)| format!("{}:{}:{}", path.display(), place.line, place.column)).unwrap_or_default();
    let message = format!("`{}/{}` is declared twice; first in {first}", key.0, key.1);
    let (file, place) = place(later).map_or((None, None), |(path, place)| (Some(path), Some(place)));
    Problem { file, place, message, hint: Some("keep one of them".into()), missing: None }
}

fn resolve_all(
    files: &[Parsed<'_>],
    objects: Vec<Object>,
    is_whole: bool,
    overrides: &Overrides,
    mut problems: Vec<Problem>,
) -> Result<Loaded, Problems> {
    let names = |kind: Kind| {
        objects.iter().filter(|object| object.address.kind == kind).map(|object| object.address.name.clone()).collect()
    };
    let declared = Declared {
        models: names(Kind::Model),
        surfaces: names(Kind::Surface),
        decisions: names(Kind::Decision),
        categories: names(Kind::Category),
        is_whole,
    };
    let settings = Settings::of(overrides, &mut problems);
    let mut loaded = Loaded { fleet: Fleet::default(), origins: Origins::default() };
    let paths: Vec<Arc<Path>> = files.iter().map(|file| Arc::from(file.source.path.as_path())).collect();
    for mut object in objects {
        settings.lay_over(&mut object, overrides.being.as_ref());
        let merged = Merged::of(object.parts);
        let mut cx = Cx {
            address: &object.address,
            merged: &merged,
            files,
            declared: &declared,
            folder: &overrides.folder,
            problems: &mut problems,
        };
        let names = resolve_into(&mut loaded.fleet, &mut cx);
        let fields = fields(&merged, object.address.kind, files, &paths);
        for name in names {
            loaded.origins.fields.insert(Address::new(object.address.kind, name), Arc::clone(&fields));
        }
    }
    let problems: Problems = problems.into_iter().collect();
    if problems.is_empty() { Ok(loaded) } else { Err(problems) }
}

/// Resolves one object into the fleet, and tells under which names.
fn resolve_into(fleet: &mut Fleet, cx: &mut Cx<'_>) -> Vec<Name> {
    let name = cx.address.name.clone();
    let is_kept = match cx.address.kind {
        Kind::Model => {
            let spec = cx.extract::<ModelDocument>().and_then(|document| resolve::model(&document, cx));
            keep(&mut fleet.models, &name, spec)
        }
        Kind::Surface => {
            let spec = cx.extract::<SurfaceDocument>().and_then(|document| resolve::surface(&document, cx));
            keep(&mut fleet.surfaces, &name, spec)
        }
        Kind::Source => {
            let spec = cx.extract::<SourceDocument>().and_then(|document| source::resolve(&document, cx));
            keep(&mut fleet.sources, &name, spec)
        }
        Kind::Cap => {
            let spec = cx.extract::<CapDocument>().and_then(|document| resolve::cap(&document, cx));
            keep(&mut fleet.caps, &name, spec)
        }
        Kind::Decision => {
            let spec = cx.extract::<DecisionDocument>().and_then(|document| decision::resolve(&document, cx));
            keep(&mut fleet.decisions, &name, spec)
        }
        Kind::Category => {
            let spec = cx.extract::<CategoryDocument>().and_then(|document| category::resolve(&document, cx));
            keep(&mut fleet.categories, &name, spec)
        }
        Kind::Being => {
            let Some(document) = cx.extract::<BeingDocument>() else { return Vec::new() };
            let Some(spec) = resolve::being(&document, cx) else { return Vec::new() };
            return place_replicas(fleet, cx, &spec, document.replicas.unwrap_or(1));
        }
    };
    if is_kept { vec![name] } else { Vec::new() }
}

fn keep<T>(objects: &mut BTreeMap<Name, T>, name: &Name, spec: Option<T>) -> bool {
    let is_kept = spec.is_some();
    objects.extend(spec.map(|spec| (name.clone(), spec)));
    is_kept
}

/// `n > 1` makes `ada-0 … ada-(n-1)`, each with its own part of the workspace.
fn place_replicas(fleet: &mut Fleet, cx: &mut Cx<'_>, spec: &BeingSpec, replicas: u32) -> Vec<Name> {
    let base = cx.address.name.clone();
    let mut names = Vec::new();
    for number in 0..replicas {
        let (name, spec) = if replicas == 1 {
            (Ok(base.clone()), spec.clone())
        } else {
            let own = |path: &PathBuf| {
                let mut own = path.clone().into_os_string();
                own.push(format!("-{number}"));
                PathBuf::from(own)
            };
            (Name::try_from(format!("{base}-{number}")), BeingSpec { workspace: spec.workspace.as_ref().map(own), ..spec.clone() })
        };
        match name {
            Ok(name) if fleet.beings.contains_key(&name) => {
                let message = format!("`being/{name}` is declared twice: by its own name, and as a replica of another being");
                cx.fault(&["replicas"], message, Some("rename one of the two beings".into()));
                return names;
            }
            Ok(name) => {
                fleet.beings.insert(name.clone(), spec);
                names.push(name);
            }
            Err(_) => {
                cx.fault(
                    &["replicas"],
                    format!("`{base}-{number}` is too long for a name"),
                    Some("shorten the name of the being".into()),
                );
                return names;
            }
        }
    }
    names
}

fn fields(merged: &Merged, kind: Kind, files: &[Parsed<'_>], paths: &[Arc<Path>]) -> Arc<[Field]> {
    let field = |(path, value, part): (String, Value, &LayerPart)| {
        let file = part.file.and_then(|at| Some((files.get(at)?, paths.get(at)?)));
        let steps: Vec<String> = part.prefix.iter().cloned().chain(steps(&path)).collect();
        let line = file.map(|(file, _)| file.line_of(file.root.span_of(&steps, true).start));
        let is_set = part.layer >= Layer::Variable;
        let variable = setting_at(kind, &path).filter(|_| is_set).map(|setting| setting.variable);
        Field { path, value, origin: Origin { layer: part.layer, file: file.map(|(_, path)| Arc::clone(path)), line, variable } }
    };
    let mut fields: Vec<Field> = merged.leaves().into_iter().map(field).collect();
    fields.retain(|field| {
        field.origin.layer != Layer::BuiltIn || DEFAULTS.pointer(&pointer(kind, &field.path)) != Some(&field.value)
    });
    fields.into()
}

fn pointer(kind: Kind, path: &str) -> String {
    let escaped = steps(path).into_iter().map(|step| step.replace('~', "~0").replace('/', "~1"));
    format!("/{kind}/{}", escaped.collect::<Vec<_>>().join("/"))
}

/// Variables and flags as documents, read once for all objects.
struct Settings {
    layers: Vec<(Layer, Kind, Value)>,
}

impl Settings {
    fn of(overrides: &Overrides, problems: &mut Vec<Problem>) -> Self {
        let mut layers = Vec::new();
        for (layer, variables) in [(Layer::Variable, &overrides.variables), (Layer::Flag, &overrides.flags)] {
            for kind in Kind::ALL {
                if kind == Kind::Being && overrides.being.is_none() {
                    continue;
                }
                let (document, faults) = document_of(kind, variables);
                problems.extend(faults);
                layers.extend((document != json!({})).then_some((layer, kind, document)));
            }
        }
        Self { layers }
    }

    fn lay_over(&self, object: &mut Object, being: Option<&Name>) {
        let Address { kind, name } = &object.address;
        let is_run = |chosen: &Name| chosen == name || chosen.as_str().strip_prefix(name.as_str()).is_some_and(is_replica);
        let is_brama =
            object.parts.iter().rev().find_map(|part| part.value.get("provider")).and_then(Value::as_str) == Some("brama");
        let takes = match kind {
            Kind::Model => is_brama,
            Kind::Surface => true,
            Kind::Cap | Kind::Source | Kind::Decision | Kind::Category => false,
            Kind::Being => being.is_some_and(is_run),
        };
        let over = self.layers.iter().filter(|(_, of, _)| takes && of == kind);
        let over: Vec<LayerPart> = over.map(|(layer, _, value)| part(*layer, value.clone())).collect();
        object.parts.extend(over);
    }
}

fn is_replica(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
