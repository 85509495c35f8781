"""An MCP server whose one tool, `try`, does what it is told and says what came of it."""
import ctypes, json, os, socket, subprocess, sys

def attempt(what, argument):
    if what == "read":
        return open(argument).read()
    if what == "write":
        with open(argument, "w") as file:
            file.write("x")
        return "written"
    if what == "empty":
        os.truncate(argument, 0)
        return "emptied"
    if what == "socket":
        socket.socket(getattr(socket, argument), socket.SOCK_STREAM)
        return "a socket"
    if what == "pair":
        a, b = socket.socketpair()
        a.send(b"x")
        return b.recv(1).decode()
    if what == "run":
        return subprocess.run(["/bin/sh", "-c", argument], capture_output=True, text=True, check=True).stdout
    if what == "kill":
        os.kill(int(argument), 0)
        return "reached"
    if what == "call":
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.syscall(*(int(word) for word in argument.split()))
        return str(result if result != -1 else -ctypes.get_errno())
    if what == "hold":
        return str(len(bytearray(int(argument))))
    if what == "spin":
        while True:
            pass
    if what == "open":
        held = [open("/dev/null") for _ in range(int(argument))]
        return str(len(held))
    if what == "fork":
        for _ in range(int(argument)):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return "forked"
    if what == "limit":
        import resource
        return str(resource.getrlimit(getattr(resource, argument)))
    return "unheard of"

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        info = {"name": "probe", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "try", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        arguments = params["arguments"]
        try:
            said = attempt(arguments["what"], arguments.get("argument", ""))
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        say(id=id, result={"content": [{"type": "text", "text": said}]})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
