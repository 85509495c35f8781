"""Runs one skill's body for the program that started this process: JSON lines in, JSON lines out.

The pipes of the protocol are moved away from standard input and output first, so that whatever a body prints is heard as talk. What a body
may reach is held by the kernel; the audit hook only refuses earlier and by name, and keeps connections to the hosts that are declared.
"""

import os
import sys

_inlet = os.fdopen(os.dup(0), "rb")
_outlet = os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)

import errno
import inspect
import json
import linecache
import traceback
import types

MAX_FRAME = 1 << 20
LOOPBACK = ("127.", "::1", "localhost")
AF_UNIX = 1
STARTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
}

begun = {}
body = None
watch = types.SimpleNamespace(on=False, denied=None, last=None, hosts=None, known=set())


class Misuse(Exception):
    """The body broke its contract in a way that has a name."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def say(frame):
    data = json.dumps(frame).encode()
    if len(data) > MAX_FRAME:
        data = json.dumps({"is": "fault", "kind": "too_long", "text": f"{len(data)} bytes", "line": None}).encode()
    data += b"\n"
    while data:
        data = data[os.write(_outlet, data) :]


def hear():
    line = _inlet.readline()
    if not line:
        os._exit(0)
    return json.loads(line)


def deny(kind, text):
    watch.denied = (kind, text)
    raise PermissionError(errno.EPERM, text)


def declared(host, port):
    """Whether the declaration names the host, and the port where it names one. Where no port is known, that it names the host is enough."""
    host = host.decode() if isinstance(host, bytes) else str(host)
    port = int(port) if str(port).isdigit() else None
    for named, at in watch.hosts or []:
        if named in ("*", host) or (named == "loopback" and host.startswith(LOOPBACK)):
            if at is None or port is None or at == port:
                return True
    return (host, port) in watch.known or (port is None and any(host == known for known, _ in watch.known))


def reach(address):
    if not isinstance(address, tuple):
        return
    host, port = address[:2]
    if not declared(host, port):
        deny("network", f"{host}:{port}")


def network(event, args):
    if event == "socket.__new__":
        watch.last = ("network", "a socket")
        if watch.hosts is None and args[1] != AF_UNIX:
            deny("network", "a socket")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host, port = args[0], args[1] if len(args) > 1 else None
        if host is not None and not declared(host, port):
            deny("network", str(host) if port is None else f"{host}:{port}")
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        reach(args[1])
    elif event == "socket.bind" and isinstance(args[1], tuple) and not str(args[1][0]).startswith(LOOPBACK):
        deny("network", f"a listener on `{args[1][0]}`")


def audit(event, args):
    if not watch.on:
        return
    if event in STARTS:
        deny("process", event)
    elif event == "import" and args[0] == "_ctypes":
        deny("process", "ctypes")
    elif event.startswith("socket."):
        network(event, args)


def remember_addresses():
    """Lets the addresses of a declared host be connected to: the hook sees addresses, and the declaration names hosts."""
    import socket

    resolve = socket.getaddrinfo

    def getaddrinfo(host, port, *more, **named):
        found = resolve(host, port, *more, **named)
        if declared(host, port):
            watch.known.update((entry[4][0], entry[4][1]) for entry in found)
        return found

    socket.getaddrinfo = getaddrinfo


def install(modules):
    package = types.ModuleType("semif_agent")
    package.__path__ = []
    sys.modules["semif_agent"] = package
    for name, source in modules:
        full = f"semif_agent.{name}"
        module = types.ModuleType(full)
        module.__package__ = "semif_agent"
        sys.modules[full] = module
        exec(compile(source, f"<{full}>", "exec"), module.__dict__)
        setattr(package, name, module)


def limit(seconds):
    """The kernel warns of spent time by a signal of its own before it kills without a word."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def begin(frame):
    begun.update(frame)
    if frame.get("cpu"):
        limit(frame["cpu"])
    install(frame["modules"])
    watch.hosts = frame.get("hosts")
    if watch.hosts is not None:
        remember_addresses()
    text = frame["source"]
    linecache.cache[frame["file"]] = (len(text), None, text.splitlines(True), frame["file"])
    sys.addaudithook(audit)


def where(error):
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == begun.get("file")]
    return lines[-1] if lines else None


def fault(error):
    """Names what went wrong, for one that is read by program and person."""
    line = where(error)
    denied, last = watch.denied, watch.last
    if isinstance(error, MemoryError):
        error.__traceback__ = None
        return {"is": "fault", "kind": "memory", "text": "", "line": line}
    kind, text = "raised", f"{type(error).__name__}: {error}"
    if isinstance(error, Misuse):
        kind, text = error.kind, str(error)
    elif isinstance(error, SystemExit):
        kind, text = "left", f"SystemExit: {error.code}"
    elif isinstance(error, ImportError):
        kind, text = "import", str(error.name or error)
    elif denied and caused_by_refusal(error):
        kind, text = denied
    elif isinstance(error, PermissionError) and isinstance(error.filename, (str, bytes)):
        kind, text = "file", os.fsdecode(error.filename)
    elif isinstance(error, PermissionError) and last:
        kind, text = last
    elif isinstance(error, OSError) and error.errno == errno.EFBIG:
        kind, text = "file_size", str(error.filename or "")
    if line is None and isinstance(error, SyntaxError):
        line = error.lineno
    return {"is": "fault", "kind": kind, "text": text[:2000], "line": line}


def caused_by_refusal(error):
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, PermissionError):
            return True
        seen.add(id(error))
        reason = getattr(error, "reason", None)
        error = error.__cause__ or error.__context__ or (reason if isinstance(reason, BaseException) else None)
    return False


class Engine:
    """The engine of the program, over the pipe."""

    loaded = True

    def call(self, request):
        from semif_agent.decisions import DecisionRequest, DecisionResult

        if not isinstance(request, DecisionRequest):
            raise Misuse("type", f"`ctx.engine.call` takes a DecisionRequest, not {named(request)}")
        say({"is": "decide", "request": request.to_semif_row()})
        answer = hear()
        if "refused" in answer:
            raise ValueError(answer["refused"])
        return DecisionResult(request, answer["option_ids"], answer["probabilities"], answer["extra"])

    def generate(self, messages, temperature=0.0, max_tokens=256):
        from semif_agent.decisions import EngineUnavailable

        raise EngineUnavailable("generation failed: this engine decides, and generates no text")

    def warm(self):
        return None


def named(value):
    return f"`{type(value).__module__}.{type(value).__qualname__}`".replace("builtins.", "")


def load():
    global body
    name = "_skill_" + begun["name"].replace(".", "_")
    module = types.ModuleType(name)
    module.__file__ = begun["file"]
    sys.modules[name] = module
    exec(compile(begun["source"], begun["file"], "exec", dont_inherit=True), module.__dict__)
    act = getattr(module, "act", None)
    if not callable(act):
        raise Misuse("functions", "it defines no `act`")
    body = module
    return {"is": "loaded"}


def pairs(value, owner):
    from semif_agent.decisions import DecisionRequest, DecisionResult

    if not isinstance(value, (list, tuple)):
        raise Misuse("type", f"`{owner}.decisions` is {named(value)}, not a list of pairs")
    rows = []
    for pair in value:
        fits = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not (fits and isinstance(pair[0], DecisionRequest) and isinstance(pair[1], DecisionResult)):
            raise Misuse("type", f"`{owner}.decisions` holds {named(pair)}, not a pair of DecisionRequest and DecisionResult")
        request, result = pair
        rows.append({"request": request.to_semif_row(), "result": {"option_ids": result.option_ids, "probabilities": result.probabilities, "extra": result.extra}})
    return rows


def text_of(value, field, optional=False):
    if isinstance(value, str) or (optional and value is None):
        return value
    raise Misuse("type", f"`{field}` is {named(value)}, not a string")


def context(frame):
    from semif_agent.decisions import Request
    from semif_agent.skills import ActionContext

    return ActionContext(engine=Engine(), config=frame["config"]), Request(**frame["request"])


def predict(frame):
    from semif_agent.skills import Prediction

    ctx, request = context(frame)
    forecast = getattr(body, "predict", None)
    made = forecast(ctx, request) if callable(forecast) else Prediction("")
    if not isinstance(made, Prediction):
        raise Misuse("type", f"`predict` returned {named(made)}, not a Prediction")
    return {"is": "predicted", "prediction": {"text": text_of(made.text, "Prediction.text"), "decisions": pairs(made.decisions, "Prediction")}}


def remade(prediction):
    from semif_agent.decisions import DecisionRequest, DecisionResult, Option
    from semif_agent.skills import Prediction

    decisions = []
    for pair in prediction["decisions"]:
        row, result = pair["request"], pair["result"]
        options = [Option(option["id"], option["description"]) for option in row["options"]]
        request = DecisionRequest(row["state"], row["question"], options, row["id"])
        decisions.append((request, DecisionResult(request, result["option_ids"], result["probabilities"], result["extra"])))
    return Prediction(prediction["text"], decisions)


def act(frame):
    from semif_agent.skills import ActionResult

    ctx, request = context(frame)
    arguments = [ctx, request, remade(frame["prediction"])]
    parameters = inspect.signature(body.act).parameters.values()
    takes = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    takes_all = len(takes) > 2 or any(one.kind == one.VAR_POSITIONAL for one in parameters)
    made = body.act(*(arguments if takes_all else arguments[:2]))
    if not isinstance(made, ActionResult):
        raise Misuse("type", f"`act` returned {named(made)}, not an ActionResult")
    return {
        "is": "acted",
        "result": {
            "action_log": text_of(made.action_log, "ActionResult.action_log"),
            "new_state": text_of(made.new_state, "ActionResult.new_state"),
            "needs_input": text_of(made.needs_input, "ActionResult.needs_input", optional=True),
            "decisions": pairs(made.decisions, "ActionResult"),
        },
    }


def script():
    """Runs a test file as a program of its own."""
    module = types.ModuleType("__main__")
    module.__file__ = begun["file"]
    sys.modules["__main__"] = module
    sys.argv = [begun["file"]]
    sys.path.insert(0, os.getcwd())
    try:
        exec(compile(begun["source"], begun["file"], "exec", dont_inherit=True), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise Misuse("test", f"it exited with {end.code}") from None
    except AssertionError as error:
        traceback.print_exc()
        raise Misuse("test", f"AssertionError: {error}".rstrip(": ")).with_traceback(error.__traceback__) from None
    return {"is": "passed"}


def inspected(frame):
    gate = types.ModuleType("gate")
    exec(compile(frame["gate"], "<gate>", "exec"), gate.__dict__)
    return {"is": "inspected", **gate.inspect(begun["source"], frame["names"])}


def answer(frame):
    steps = {"load": load, "script": script}
    ask = frame["op"]
    watch.denied = watch.last = None
    watch.on = ask != "inspect"
    try:
        if ask in steps:
            return steps[ask]()
        return {"inspect": inspected, "predict": predict, "act": act}[ask](frame)
    except BaseException as error:
        return fault(error)
    finally:
        watch.on = False
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass


def main():
    begin(hear())
    while True:
        say(answer(hear()))


main()
