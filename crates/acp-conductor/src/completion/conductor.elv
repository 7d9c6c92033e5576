# Elvish completion for conductor. `conductor completions elvish` prints this file.

use str

set edit:completion:arg-completer[conductor] = {|@words|
    e:conductor complete elvish -- $@words 2>/dev/null | from-lines | each {|line|
        var parts = [(str:split &max=2 "\t" $line)]
        if (== (count $parts) 2) {
            edit:complex-candidate $parts[0] &display=$parts[0]'  '$parts[1]
        } else {
            edit:complex-candidate $parts[0]
        }
    }
}
