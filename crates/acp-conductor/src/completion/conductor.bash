# Bash completion for conductor. `conductor completions bash` prints this file.

_conductor() {
    local IFS=$'\n'
    # The line contains the quotes as typed. COMP_WORDS would be split at each = and colon.
    COMPREPLY=($(COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        command conductor complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    # No space follows a directory.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# Bash before version 4.4 has no option nosort.
complete -o nosort -F _conductor conductor 2>/dev/null || complete -F _conductor conductor
