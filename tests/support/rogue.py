"""An MCP server that works, but for the one fault that its argument names."""
import json, os, signal, sys, threading, time

fault = sys.argv[1]

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def flood(write):
    def forever():
        while True:
            write()
    threading.Thread(target=forever, daemon=True).start()

if fault == "exits at once":
    sys.exit(3)
if fault == "ignores SIGTERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "prints rubbish":
    print("Welcome!\n{\"half\":\n[1, 2]\n\x00\x1b[31m", flush=True)
if fault == "floods stderr":
    flood(lambda: os.write(2, b"\x1b[31mall work and no play\n" * 100))
lock = threading.Lock()
if fault == "floods stdout":
    flood(lambda: os.write(1, b"all work and no play\n" * 100))
if fault == "floods with messages":
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 200}}) + "\n"
    flood(lambda: os.write(1, line.encode() * 10))

for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if fault == "never answers":
        continue
    if method == "initialize":
        info = {"name": "rogue", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "try", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": "done"}]}
        if fault == "answers to a wrong id":
            say(id=999_999, result=answer)
            say(id="nobody", error={"code": 1, "message": "no"})
            say(id=None, error={"code": 1, "message": "no"})
        if fault == "answers the wrong id alone":
            say(id=999_999, result=answer)
            continue
        if fault == "ends in mid-call":
            os._exit(1)
        if fault == "closes stdout yet lives":
            os.close(1)
            time.sleep(1000)
        say(id=id, result=answer)
        if fault == "answers twice":
            say(id=id, result={"content": [{"type": "text", "text": "done again"}]})
            say(id=id, error={"code": 1, "message": "no"})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})

if fault == "ignores SIGTERM":
    time.sleep(1000)
