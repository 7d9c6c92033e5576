#!/usr/bin/env bash
# PreToolUse, Bash: blocks commands that delete too much. Needs no jq.
input=$(cat)
command=$(printf '%s' "$input" | sed -n 's/.*"command"[[:space:]]*:[[:space:]]*"\(\([^"\\]\|\\.\)*\)".*/\1/p')
if printf '%s' "$command" | grep -qE 'rm[[:space:]]+-[a-zA-Z]*(rf|fr)|git[[:space:]]+push.*--force'; then
  echo "Blocked: '$command' is destructive." >&2
  exit 2
fi
exit 0
