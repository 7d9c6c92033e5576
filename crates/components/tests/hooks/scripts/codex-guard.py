#!/usr/bin/env python3
"""PreToolUse of Codex: keeps patches away from generated files."""
import json
import re
import sys

data = json.load(sys.stdin)
assert data["turn_id"] and data["model"]
if data["tool_name"] == "apply_patch":
    paths = re.findall(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", data["tool_input"]["command"], re.M)
    bad = [path for path in paths if "/generated/" in path]
    if bad:
        print(json.dumps({
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": f"{bad[0]} is generated; change its template",
            }
        }))
elif "curl" in data["tool_input"]["command"]:
    print("no downloads", file=sys.stderr)
    sys.exit(2)
