import json, re

decode, skip = json.JSONDecoder().raw_decode, re.compile(r"[\s,:]*").match
stdin, stdout = open(0, encoding="utf-8", newline="\n"), open(1, "w", encoding="utf-8", newline="\n")

def members(text):
    found, at = {}, skip(text, text.index("{") + 1).end()
    while text[at] != "}":
        key, at = decode(text, at)
        start = skip(text, at).end()
        at = decode(text, start)[1]
        found[key], at = text[start:at], skip(text, at).end()
    return found

def join(found):
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in found.items() if value) + "}"

for message in map(members, stdin):
    method, params = message.get("method"), message.get("params")
    if method == '"proxy/successor"':  # from the agent's side
        message["method"], message["params"] = map(members(params).get, ("method", "params"))
    elif method and method != '"$/cancel_request"':  # from the editor's side
        inner = {"method": {'"proxy/initialize"': '"initialize"'}.get(method, method), "params": params}
        message |= {"method": '"proxy/successor"', "params": join(inner)}
    print(join(message), file=stdout, flush=True)
