"""The acceptance gate of skills, over CPython's own parse of the body. Nothing of the body is run here."""

import ast
import builtins
import re
import symtable
import sys

AGENT = ("decisions", "engine", "skills")
TRANSPORTS = ("http", "caldav", "imap", "smtp", "pop", "subprocess", "file", "compute")
EVIDENCE = {
    "http": ("urllib.request", "urllib.error", "http.client"),
    "caldav": ("urllib.request", "urllib.error", "http.client"),
    "imap": ("imaplib",),
    "smtp": ("smtplib",),
    "pop": ("poplib",),
    "subprocess": ("subprocess",),
    "file": ("pathlib",),
}
FILE_CALLS = ("open", "write_text", "write_bytes")
MODULE_NAMES = ("__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__builtins__", "__annotations__")
WORDS = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*\Z")
SNAKE = re.compile(r"[a-z0-9_]+\Z")
PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Pass)


class Gate:
    def __init__(self, tree, source, names):
        self.tree, self.source, self.names = tree, source, names
        self.findings = []
        self.functions = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        self.imported = {}
        self.contract, self.integration = {}, None

    def error(self, code, line, text):
        self.findings.append({"code": code, "line": line, "text": text, "is_advice": False})

    def advise(self, code, line, text):
        self.findings.append({"code": code, "line": line, "text": text, "is_advice": True})

    def calls(self, root=None):
        return (node for node in ast.walk(root or self.tree) if isinstance(node, ast.Call))


def name_of(node):
    """`a.b.c` as text; the last part alone where it hangs on something that has no name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def check_names(gate):
    category, leaf = gate.names["category"], gate.names["leaf"]
    if not category:
        gate.error("category", 1, "the skill has no category; put the body into `<category>/<name>.py`, or give --name category.name")
    elif not WORDS.match(category):
        gate.error("category", 1, f"category title must be snake_case alnum: {category}")
    if not WORDS.match(leaf):
        gate.error("name", 1, f"skill title must be snake_case alnum (dots allowed): {leaf}")
    for other in gate.names["beside"]:
        gate.error("duplicate", 1, f"create_skill failed: {category}.{leaf} already exists, as {other}")


def parameters(function):
    arguments = function.args
    return [one.arg for one in arguments.posonlyargs + arguments.args], len(arguments.defaults), arguments.vararg is not None


def takes(function, count):
    names, defaults, is_open = parameters(function)
    needs = len(names) - defaults
    return needs <= count and (is_open or count <= len(names))


def check_functions(gate):
    predict, act = gate.functions.get("predict"), gate.functions.get("act")
    if act is None:
        gate.error("functions", 1, "skill body must define a module-level `act` function")
    if predict is None and (act is None or not takes(act, 2)):
        gate.error("functions", 1, "skill body must define a module-level `predict` function")
    for function in (predict, act):
        if isinstance(function, ast.AsyncFunctionDef):
            gate.error("functions", function.lineno, f"`{function.name}` is async; it must be a plain function")
    if predict is not None and not takes(predict, 2):
        gate.error("functions", predict.lineno, "`predict` must take (ctx, request)")
    if act is not None and not takes(act, 3) and not takes(act, 2):
        gate.error("functions", act.lineno, "`act` must take (ctx, request, prediction), or (ctx, request)")
    for wanted, function in (("Prediction", predict), ("ActionResult", act)):
        if function is not None:
            check_returns(gate, function, wanted)


def own_nodes(function):
    """The nodes of a function without those of functions within it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def check_returns(gate, function, wanted):
    other = {"Prediction": "ActionResult", "ActionResult": "Prediction"}[wanted]
    nodes = list(own_nodes(function))
    returns = sorted((node for node in nodes if isinstance(node, ast.Return)), key=lambda node: node.lineno)
    raises = any(isinstance(node, ast.Raise) for node in nodes)
    if not returns and not raises:
        gate.error("returns", function.lineno, f"`{function.name}` returns nothing; it must return {wanted}(…)")
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
        gate.error("returns", function.lineno, f"`{function.name}` is a generator; it must return {wanted}(…)")
    literals = (ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr, ast.DictComp, ast.ListComp, ast.SetComp, ast.GeneratorExp)
    for node in returns:
        value = node.value
        is_other = isinstance(value, ast.Call) and name_of(value.func).split(".")[-1] == other
        if value is None or isinstance(value, literals) or is_other:
            what = "nothing" if value is None else ast.unparse(value)
            what = what if len(what) <= 60 else what[:60] + "…"
            gate.error("returns", node.lineno, f"`{function.name}` returns {what}; it must return {wanted}(…)")


def check_import(gate, line, module, names=()):
    top, _, rest = module.partition(".")
    gate.imported.setdefault(module, line)
    for name in names:
        gate.imported.setdefault(f"{module}.{name}", line)
    if top == "semif_agent":
        parts = [rest] if rest else [name for name in names]
        for part in parts:
            if part.split(".")[0] not in AGENT:
                gate.error("imports", line, f"imports `semif_agent.{part}`; the agent package gives skills {', '.join(AGENT)}")
    elif module == "unittest.mock" or (module == "unittest" and "mock" in names):
        gate.error("engine", line, "imports `unittest.mock`; decisions are made by the real engine, `ctx.engine`")
    elif top not in sys.stdlib_module_names:
        gate.error("imports", line, f"imports `{module}`, which is neither of the standard library nor the agent package")
    elif top in ("subprocess", "multiprocessing", "ctypes", "pty"):
        gate.advise("process", line, f"imports `{top}`; a skill starts no process and calls no native code, and is ended when it tries")


def check_imports(gate):
    for node in ast.walk(gate.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                check_import(gate, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                gate.error("imports", node.lineno, "imports a neighbour; a skill is a single file")
            elif node.module != "__future__":
                check_import(gate, node.lineno, node.module, [alias.name for alias in node.names])
        elif isinstance(node, ast.Call) and name_of(node.func) in ("__import__", "importlib.import_module", "import_module"):
            given = node.args[0] if node.args else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                check_import(gate, node.lineno, given.value)
            else:
                gate.error("imports", node.lineno, "imports a module whose name is computed; name it in an import statement")


def check_engine(gate):
    uses = any(isinstance(node, ast.Attribute) and node.attr == "engine" for node in ast.walk(gate.tree))
    for call in gate.calls():
        if name_of(call.func).split(".")[-1] == "DecisionResult":
            gate.error("engine", call.lineno, "makes a DecisionResult by itself; decisions are made by the real engine, `ctx.engine.call`")
    for node in ast.walk(gate.tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and name_of(target).endswith((".engine", ".engine.call")):
                gate.error("engine", node.lineno, f"replaces `{name_of(target)}`; decisions are made by the real engine")
    asks = any(name_of(call.func).split(".")[-1] == "DecisionRequest" for call in gate.calls())
    if asks and not uses:
        gate.error("engine", 1, "builds a DecisionRequest, and never calls `ctx.engine`")
    elif "predict" in gate.functions and not uses:
        gate.advise("engine", gate.functions["predict"].lineno, "never uses `ctx.engine`; right only where nothing is to be decided")


def constant(gate, name):
    for node in gate.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and node.value is not None:
            return node
    return None


def check_contract(gate):
    node = constant(gate, "CONTRACT")
    if node is None:
        return
    value = node.value
    if not isinstance(value, ast.Dict):
        gate.error("contract", node.lineno, "data contract must be a single JSON object")
        return
    for key, text in zip(value.keys, value.values):
        line = (key or text).lineno
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and SNAKE.match(key.value)):
            shown = "**" if key is None else ast.unparse(key)
            gate.error("contract", line, f"contract variable {shown} must be lowercase snake_case")
        elif not (isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.strip()):
            gate.error("contract", line, f"contract value for '{key.value}' must be a semantic description string")
        else:
            gate.contract[key.value] = text.value
            if key.value not in config_reads(gate):
                gate.error("contract", line, f"contract variable '{key.value}' is never read from ctx.config")


def config_names(gate):
    """What the configuration is called in the body: `config`, whatever it is assigned to, and the parameters that it is passed as."""
    names = {"config", "cfg", "conf"}
    is_config = lambda node: isinstance(node, (ast.Name, ast.Attribute)) and name_of(node).split(".")[-1] in names
    for node in ast.walk(gate.tree):
        if isinstance(node, ast.Assign) and is_config(node.value):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for call in gate.calls():
        function = gate.functions.get(name_of(call.func))
        if function is not None:
            given = zip(parameters(function)[0], call.args)
            names.update(name for name, value in given if is_config(value))
    return names


def config_reads(gate):
    """Every constant key that is read off the configuration."""
    names, read = config_names(gate), set()
    for node in ast.walk(gate.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            owner, key = node.value, node.slice.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault"):
            owner, key = node.func.value, getattr(node.args[0], "value", None) if node.args else None
        else:
            continue
        if name_of(owner).split(".")[-1] in names:
            read.add(key)
    return read


def check_integration(gate):
    node = constant(gate, "INTEGRATION")
    if node is None:
        act = gate.functions.get("act")
        if act is not None and "predict" not in gate.functions:
            gate.advise("integration", act.lineno, "the body does not define a valid module-level INTEGRATION dict")
        return
    line, value = node.lineno, node.value
    if not isinstance(value, ast.Dict):
        gate.error("integration", line, "INTEGRATION must be a flat dict literal")
        return
    given = {}
    for key, item in zip(value.keys, value.values):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            gate.error("integration", line, "INTEGRATION keys must be string literals")
            return
        given[key.value] = item
    variables = given.get("config_vars")
    names = []
    if variables is not None:
        fits = isinstance(variables, (ast.List, ast.Tuple)) and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in variables.elts)
        if not fits:
            gate.error("integration", variables.lineno, "INTEGRATION['config_vars'] must be a list of string literals")
        else:
            names = [one.value for one in variables.elts]
    service, transport = (getattr(given.get(key), "value", None) for key in ("service", "transport"))
    if not (isinstance(service, str) and SNAKE.match(service)):
        gate.error("integration", line, "INTEGRATION['service'] must be a lowercase snake_case id")
    if transport not in TRANSPORTS:
        gate.error("integration", line, f"INTEGRATION['transport'] must be one of {', '.join(TRANSPORTS)}")
        return
    gate.integration = {"service": service, "transport": transport, "config_vars": names}
    unread = [name for name in names if name not in config_reads(gate)]
    if unread:
        gate.error("integration", line, f"INTEGRATION.config_vars {unread} are never read from ctx.config")
    check_transport(gate, line, transport)


def check_transport(gate, line, transport):
    if transport == "subprocess":
        gate.error("process", line, "INTEGRATION declares transport 'subprocess', and a skill starts no process here; use another transport")
        return
    shown = any(module == wanted or module.startswith(wanted + ".") for module in gate.imported for wanted in EVIDENCE.get(transport, ()))
    if transport == "file":
        shown = shown or any(name_of(call.func).split(".")[-1] in FILE_CALLS for call in gate.calls())
    if not shown and transport != "compute":
        gate.error("integration", line, f"INTEGRATION declares transport '{transport}' but the body shows no {transport} calls")


def check_bindings(gate):
    """Every name that a scope takes from the module has to be bound in it, or built in."""
    if any(isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in ast.walk(gate.tree)):
        return
    top = symtable.symtable(gate.source, "skill", "exec")
    bound = set(dir(builtins)) | set(MODULE_NAMES)
    wanted = set()
    tables = [top]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            is_top = table is top
            if (is_top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
                bound.add(symbol.get_name())
            elif symbol.is_referenced() and (is_top or symbol.is_global()):
                wanted.add(symbol.get_name())
    for name in sorted(wanted - bound):
        lines = [node.lineno for node in ast.walk(gate.tree) if isinstance(node, ast.Name) and node.id == name]
        gate.error("unbound", min(lines, default=1), f"uses `{name}`, which is neither imported nor defined")


def check_conduct(gate):
    for node in gate.tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_guard = isinstance(node, (ast.If, ast.Try))
        if not (isinstance(node, PLAIN) or is_text or is_guard):
            gate.advise("import_time", node.lineno, "works while it is imported; only `predict` and `act` may work")
    for node in ast.walk(gate.tree):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            gate.advise("loop", node.lineno, "loops without a bound; a run that does not end is ended")
        elif isinstance(node, ast.Call) and name_of(node.func) in ("time.sleep", "sleep"):
            gate.advise("loop", node.lineno, "sleeps; keep the work small, and leave retries to the loop around it")


CHECKS = (check_names, check_functions, check_imports, check_engine, check_contract, check_integration, check_bindings, check_conduct)


def refused(code, line, text):
    finding = {"code": code, "line": line, "text": text, "is_advice": False}
    return {"findings": [finding], "contract": {}, "integration": None, "is_act_only": False}


def inspect(source, names):
    if not source.strip():
        return refused("empty", 1, "skill body is empty")
    try:
        tree = ast.parse(source)
        compile(source, "skill", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        text = error.msg if isinstance(error, SyntaxError) else f"{type(error).__name__}: {error}"
        return refused("syntax", getattr(error, "lineno", None) or 1, f"skill body is not valid Python: {text}")
    gate = Gate(tree, source, names)
    for check in CHECKS:
        check(gate)
    gate.findings.sort(key=lambda finding: (finding["line"], finding["code"]))
    is_act_only = "act" in gate.functions and "predict" not in gate.functions
    return {"findings": gate.findings, "contract": gate.contract, "integration": gate.integration, "is_act_only": is_act_only}
