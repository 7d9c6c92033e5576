#!/bin/bash
# PreToolUse, Bash: writes each command to a log in the project.
jq -r '"\(.tool_input.command) - \(.tool_input.description // "No description")"' >> "$CLAUDE_PROJECT_DIR/commands.log"
