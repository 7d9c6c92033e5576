# Fish completion for conductor. `conductor completions fish` prints this file.

complete --command conductor --no-files --keep-order --arguments '(command conductor complete fish -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor) 2>/dev/null)'
