"""An MCP server that many use: it notes each process of it, and its tools say which process they are of, wait, ask, and add a tool.

Where STAYS is set, it does not end by itself when its stdin does."""
import json, os, pathlib, sys, threading, time

here = pathlib.Path(os.environ["TRACES"])
if (here / "broken").exists():
    sys.exit("broken")
with open(here / "started", "a") as started:
    started.write(f"{os.getpid()}\n")
lock, asking = threading.Lock(), {}
tools = ["who", "wait", "ask", "grow"] + [tool for tool in os.environ.get("MORE", "").split() if tool]

def say(**message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def answer(id, text):
    say(id=id, result={"content": [{"type": "text", "text": text}]})

def wait(id):
    while not (here / "go").exists():
        time.sleep(0.01)
    answer(id, "done")

for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        info = {"name": "pool", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in tools]})
    elif method == "tools/call" and params["name"] == "wait":
        (here / "waiting").touch()
        threading.Thread(target=wait, args=[id], daemon=True).start()
    elif method == "tools/call" and params["name"] == "ask":
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        asking[f"question-{id}"] = id
        say(id=f"question-{id}", method="elicitation/create", params={"mode": "form", "message": "Who?", "requestedSchema": form})
    elif method == "tools/call" and params["name"] == "grow":
        tools.append("grown")
        say(method="notifications/tools/list_changed")
        answer(id, "grown")
    elif method == "tools/call":
        answer(id, f"process {os.getpid()}")
    elif method is None and id in asking:
        answer(asking.pop(id), json.dumps(asked.get("result") or asked["error"]))
    elif method is not None and id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})

if "STAYS" in os.environ:
    time.sleep(1000)
