#!/usr/bin/env bash
# Stop: the agent goes on until the tests pass, once.
input=$(cat)
case "$input" in
  *'"stop_hook_active":true'*|*'"stop_hook_active": true'*) exit 0 ;;
esac
if [ ! -f tests-passed ]; then
  printf '{"decision":"block","reason":"The tests have not passed. Run them."}'
fi
