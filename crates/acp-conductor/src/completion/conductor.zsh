#compdef conductor
# Zsh completion for conductor. `conductor completions zsh` prints this file.

_conductor() {
    local -a lines values shown folders
    local line value
    lines=("${(@f)$(command conductor complete zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in $lines; do
        value="${line%%$'\t'*}"
        if [[ $value == */ ]]; then
            folders+=("$value")
        else
            values+=("$value")
            shown+=("${line/$'\t'/  -- }")
        fi
    done
    # A description is the rest of a line, so that each candidate has its own line.
    (( $#values )) && compadd -V components -l -d shown -a values
    # No space follows a directory.
    (( $#folders )) && compadd -V folders -S '' -a folders
    (( $#values + $#folders ))
}

# The file is sourced, or loaded as the function _conductor from a directory in fpath.
if [[ ${funcstack[1]-} == _conductor ]]; then
    _conductor "$@"
else
    compdef _conductor conductor
fi
