#!/usr/bin/env python3
"""PreToolUse: blocks dangerous commands and access to .env files."""
import json
import re
import sys

DANGEROUS = [r"\brm\s+.*-[a-z]*r[a-z]*f", r"\brm\s+.*-[a-z]*f[a-z]*r", r"\bgit\s+push\b.*--force", r"\bmkfs\b"]


def main():
    try:
        data = json.load(sys.stdin)
    except json.JSONDecodeError:
        sys.exit(0)
    tool = data.get("tool_name", "")
    tool_input = data.get("tool_input", {})
    if tool == "Bash":
        command = " ".join(tool_input.get("command", "").lower().split())
        if any(re.search(pattern, command) for pattern in DANGEROUS):
            print("BLOCKED: dangerous command detected", file=sys.stderr)
            sys.exit(2)
    if tool in ("Read", "Edit", "MultiEdit", "Write"):
        path = tool_input.get("file_path", "")
        if ".env" in path and not path.endswith(".env.sample"):
            print("BLOCKED: access to .env files is prohibited", file=sys.stderr)
            sys.exit(2)
    sys.exit(0)


if __name__ == "__main__":
    main()
