#!/usr/bin/env python3
"""UserPromptSubmit: keeps secrets out of prompts, and adds the time zone."""
import json
import re
import sys

data = json.load(sys.stdin)
if re.search(r"(?i)\b(password|secret|key|token)\s*[:=]", data.get("prompt", "")):
    print(json.dumps({"decision": "block", "reason": "The prompt contains a secret. Remove it."}))
    sys.exit(0)
print("The user works in UTC.")
