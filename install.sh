#!/bin/sh
# Installs Conductor from the archive of a release. `sh install.sh --help` lists the options.
#
# The archive is installed only if its SHA-256 checksum is the one in the release's SHA256SUMS file.
# Everything is inside functions, and the last line calls them: an incomplete copy of this script does nothing.

RELEASES='https://github.com/acp-conductor/conductor/releases'
SOURCE='https://github.com/acp-conductor/conductor'

usage() {
    cat <<'END'
usage: sh install.sh [OPTION...]

Installs the program conductor, its shell completions and its manual pages. A second run upgrades.

  --version VERSION  install this version instead of the latest one
  --prefix FOLDER    install into FOLDER/bin and FOLDER/share instead of ~/.local/bin and
                     $XDG_DATA_HOME (~/.local/share)
  --bin-dir FOLDER   install the program into FOLDER
  --from SOURCE      take SHA256SUMS and the archive from this https URL or this local folder. The
                     default is $CONDUCTOR_DOWNLOAD_URL, or else the releases on GitHub
  --uninstall        remove everything that this script has installed
  --help             print this text
END
}

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

usage_error() {
    printf 'install.sh: %s\n\n' "$*" >&2
    usage >&2
    exit 2
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Removes the temporary files. Also runs after an error or a signal.
clean_up() {
    [ -z "$temporary" ] || rm -rf "$temporary"
    [ -z "$unfinished" ] || rm -f "$unfinished"
}

# The path of a folder, absolute and without a slash at its end.
absolute() {
    file=$1
    while :; do
        case $file in
            /) break ;;
            */) file=${file%/} ;;
            *) break ;;
        esac
    done
    case $file in
        /*) printf '%s' "$file" ;;
        *) printf '%s/%s' "$(pwd)" "$file" ;;
    esac
}

# The word as a shell reads it back.
quoted() {
    printf "'%s'" "$(printf '%s\n' "$1" | sed "s/'/'\\\\''/g")"
}

parse_options() {
    version='' prefix='' bin='' uninstall='' from=${CONDUCTOR_DOWNLOAD_URL:-}
    while [ $# -gt 0 ]; do
        option=$1
        shift
        case $option in
            --help | -h)
                usage
                exit 0
                ;;
            --uninstall)
                uninstall=yes
                continue
                ;;
            --version=* | --prefix=* | --bin-dir=* | --from=*)
                value=${option#*=}
                option=${option%%=*}
                ;;
            --version | --prefix | --bin-dir | --from)
                [ $# -gt 0 ] || usage_error "$option needs a value"
                value=$1
                shift
                ;;
            *) usage_error "unknown option $option" ;;
        esac
        [ -n "$value" ] || usage_error "the value of $option is empty"
        case $option in
            --version)
                version=${value#v}
                case $version in
                    [0-9]*) ;;
                    *) usage_error "$value is not a version" ;;
                esac
                case $version in
                    *[!0-9A-Za-z.+-]*) usage_error "$value is not a version" ;;
                esac
                ;;
            --prefix) prefix=$(absolute "$value") ;;
            --bin-dir) bin=$(absolute "$value") ;;
            --from) from=$value ;;
        esac
    done
}

choose_folders() {
    if [ -n "$prefix" ]; then
        data=$prefix/share
        bin=${bin:-$prefix/bin}
    else
        [ -n "${HOME:-}" ] || fail 'the environment variable HOME is not set: use --prefix FOLDER'
        # A relative XDG_DATA_HOME is invalid and ignored.
        case ${XDG_DATA_HOME:-} in
            /*) data=$(absolute "$XDG_DATA_HOME") ;;
            *) data=$(absolute "$HOME")/.local/share ;;
        esac
        bin=${bin:-$(absolute "$HOME")/.local/bin}
    fi
    # The list of the installed files has a path per line.
    case $bin$data in
        *"$newline"*) fail 'the path of a folder contains a line break: choose another one with --prefix' ;;
    esac
    # The paths of all installed files, one per line.
    list=$data/conductor/installed-files
}

choose_target() {
    system=$(uname -s)
    machine=$(uname -m)
    from_source="Install Rust 1.91 or later, and run: cargo install --git $SOURCE acp-conductor"
    [ "$system" = Linux ] || fail "there is no archive for $system. $from_source"
    case $machine in
        x86_64 | amd64) target=x86_64-unknown-linux-musl ;;
        aarch64 | arm64) target=aarch64-unknown-linux-musl ;;
        *) fail "there is no archive for Linux on $machine. $from_source" ;;
    esac
}

# Sets `from` to the URL or folder that has SHA256SUMS.
choose_source() {
    case $from in
        '')
            from=$RELEASES/latest/download
            [ -z "$version" ] || from=$RELEASES/download/v$version
            ;;
        file://*) from=${from#file://} ;;
    esac
    from=${from%/}
    case $from in
        https://*) ;;
        # The checksums come from the same place as the archive, so both need an authenticated connection.
        http://*@*) fail "$from: use an https URL or a local folder" ;;
        http://localhost[:/]* | http://127.0.0.1[:/]* | 'http://[::1]'[:/]*) ;;
        *://*) fail "$from: use an https URL or a local folder" ;;
        *)
            from=$(absolute "$from")
            [ -d "$from" ] || fail "$from is not a folder"
            ;;
    esac
}

# with_wget FILE URL: downloads with wget. Not every wget knows --tries; GNU's tries for minutes without it.
with_wget() {
    if wget --help 2>&1 | grep -q -e --tries; then
        wget --tries=3 -q -O "$1" "$2" </dev/null
    elif wget -q -O "$1" "$2" </dev/null 2>"$temporary/wget-errors"; then
        # Some builds of busybox do not check who sends the file, and say so.
        ! grep -q 'validation not implemented' "$temporary/wget-errors" ||
            fail 'this wget does not check the certificate of the server: install curl first'
    else
        cat "$temporary/wget-errors" >&2
        return 1
    fi
}

# fetch NAME: puts a file of the release into the temporary folder.
fetch() {
    case $from in
        https://*)
            if has curl; then
                curl --proto '=https' --tlsv1.2 -fsSL --retry 3 -o "$temporary/$1" "$from/$1" </dev/null
            else
                with_wget "$temporary/$1" "$from/$1"
            fi
            ;;
        http://*)
            if has curl; then
                curl --noproxy '*' -fsSL -o "$temporary/$1" "$from/$1" </dev/null
            else
                with_wget "$temporary/$1" "$from/$1"
            fi
            ;;
        *) cp "$from/$1" "$temporary/$1" ;;
    esac || fail "cannot get $from/$1"
}

check_tools() {
    for tool in tar gzip mktemp; do
        has "$tool" || fail "the program $tool is missing: install it first"
    done
    has sha256sum || has shasum || has openssl ||
        fail 'the program sha256sum is missing: install sha256sum, shasum or openssl first'
    case $from in
        http*) has curl || has wget || fail 'the programs curl and wget are missing: install one of them first' ;;
    esac
}

# The SHA-256 checksum of a file, in hexadecimal digits.
checksum() {
    if has sha256sum; then
        sha256sum <"$1"
    elif has shasum; then
        shasum -a 256 <"$1"
    else
        openssl dgst -sha256 -r <"$1"
    fi | cut -d ' ' -f 1
}

# Finds the archive for this machine in SHA256SUMS. Sets `archive`, `expected` and `version`.
choose_archive() {
    wanted=$version archive='' expected=''
    # Some editors and tools write a carriage return at the end of each line.
    tr -d '\r' <"$temporary/SHA256SUMS" >"$temporary/sums" || fail "cannot write to $temporary"
    # An incomplete last line, without a line end, is not read.
    while read -r sum name; do
        name=${name#\*}
        case $name in
            conductor-[0-9]*"-$target.tar.gz") ;;
            *) continue ;;
        esac
        this=${name#conductor-}
        this=${this%"-$target.tar.gz"}
        [ -z "$wanted" ] || [ "$this" = "$wanted" ] || continue
        [ -z "$archive" ] || fail "$from has several versions: choose one with --version VERSION"
        archive=$name expected=$sum version=$this
    done <"$temporary/sums"
    [ -n "$archive" ] ||
        fail "$from/SHA256SUMS has no checksum of an archive conductor-${wanted:-VERSION}-$target.tar.gz"
    case $version in
        *[!0-9A-Za-z.+-]*) fail "$from/SHA256SUMS has an invalid file name" ;;
    esac
    case $expected in
        *[!0-9a-f]*) fail "the checksum of $archive in $from/SHA256SUMS is invalid" ;;
    esac
    [ ${#expected} -eq 64 ] || fail "the checksum of $archive in $from/SHA256SUMS is invalid"
}

unpack() {
    fetch "$archive"
    actual=$(checksum "$temporary/$archive")
    [ "$actual" = "$expected" ] || fail "the checksum of $archive is wrong, so it is not installed.
  expected $expected
  found    $actual
The download is incomplete, or somebody has changed the file. Try again."
    tar -xzf "$temporary/$archive" -C "$temporary" </dev/null || fail "cannot unpack $archive"
    content=$temporary/conductor-$version-$target
    [ -f "$content/conductor" ] || fail "$archive has no program conductor"
}

make_folder() {
    mkdir -p "$1" || fail "cannot create the folder $1: choose another one with --prefix or --bin-dir"
}

# prepare FILE MODE DESTINATION: copies a file into the folder of its destination, under a temporary name.
prepare() {
    folder=${3%/*}
    make_folder "$folder"
    [ ! -d "$3" ] || fail "$3 is a folder: remove it first"
    unfinished=$folder/.conductor-install-$$
    { rm -f "$unfinished" && cp "$1" "$unfinished" && chmod "$2" "$unfinished"; } ||
        fail "cannot write to $folder: choose another folder with --prefix or --bin-dir"
}

# put FILE MODE DESTINATION: replaces a file in one step, so that a running program is not disturbed.
put() {
    prepare "$@"
    mv -f "$unfinished" "$3" || fail "cannot write $3"
    unfinished=''
}

# Runs the program once in its folder, before anything is changed.
check_program() {
    prepare "$content/conductor" 755 "$bin/conductor"
    found=$("$unfinished" --version 2>&1 </dev/null) || fail "the program in $archive does not run here: $found"
    [ "$found" = "conductor $version" ] || fail "the program in $archive is not version $version: $found"
    rm -f "$unfinished"
    unfinished=''
}

# Calls a command with `FILE MODE DESTINATION` for each file.
each_file() {
    "$1" "$content/conductor" 755 "$bin/conductor"
    "$1" "$content/completions/conductor.bash" 644 "$data/bash-completion/completions/conductor"
    "$1" "$content/completions/_conductor" 644 "$data/zsh/site-functions/_conductor"
    "$1" "$content/completions/conductor.fish" 644 "$data/fish/vendor_completions.d/conductor.fish"
    "$1" "$content/completions/conductor.ps1" 644 "$data/conductor/conductor.ps1"
    "$1" "$content/completions/conductor.elv" 644 "$data/conductor/conductor.elv"
    for page in "$content"/man/man1/*.1; do
        "$1" "$page" 644 "$data/man/man1/${page##*/}"
    done
    for text in "$content"/*.md "$content"/*.txt "$content"/*.html "$content"/*.json "$content"/LICENSE-*; do
        "$1" "$text" 644 "$data/doc/conductor/${text##*/}"
    done
}

# The commands for `each_file`. A release may lack a file of the list.
#
# A folder can have several paths, such as `/usr/local` and `/usr/local/../local`. The list has the one without links.
note_file() {
    [ -f "$1" ] || return 0
    folder=${3%/*}
    make_folder "$folder"
    folder=$(cd -P "$folder" && pwd -P) || fail "cannot read the folder $folder"
    printf '%s/%s\n' "$folder" "${3##*/}" >>"$temporary/new-files" || cannot_write_lists
}

cannot_write_lists() {
    fail "cannot write to $temporary: set the environment variable TMPDIR to a folder with more space"
}

# Whether a list has this path.
lists() {
    grep -qxF -e "$2" "$1"
}

put_file() {
    [ ! -f "$1" ] || put "$1" "$2" "$3"
}

# Refuses to replace a program that this script has not installed: it may be another one of the same name.
check_replaced() {
    IFS= read -r program <"$temporary/new-files" || cannot_write_lists
    [ ! -e "$program" ] && [ ! -L "$program" ] && return
    lists "$temporary/old-files" "$program" ||
        fail "$program exists, and this script has not installed it: remove it, or choose another folder with --bin-dir"
}

install() {
    : >"$temporary/new-files"
    : >"$temporary/old-files"
    each_file note_file
    [ ! -f "$list" ] || cat "$list" >"$temporary/old-files" || cannot_write_lists
    check_replaced
    # If this run is interrupted, --uninstall must find the files of both versions.
    sort -u "$temporary/old-files" "$temporary/new-files" >"$temporary/all-files" || cannot_write_lists
    put "$temporary/all-files" 644 "$list"
    each_file put_file
    while IFS= read -r file; do
        lists "$temporary/new-files" "$file" || rm -f "$file"
    done <"$temporary/old-files"
    put "$temporary/new-files" 644 "$list"
}

uninstall() {
    if [ ! -f "$list" ]; then
        say "Nothing to remove: $list does not exist."
        say 'If you installed with --prefix, use the same option now.'
        return
    fi
    while IFS= read -r file; do
        case $file in
            /*) rm -f "$file" || fail "cannot remove $file" ;;
        esac
    done <"$list"
    rm -f "$list" || fail "cannot remove $list"
    rmdir "$data/conductor" "$data/doc/conductor" 2>/dev/null
    say 'Conductor is removed.'
}

# The quotes keep $PATH as it is: the user's shell expands it.
# shellcheck disable=SC2016
say_next_steps() {
    say "conductor $version is installed: $bin/conductor"
    shell=${SHELL:-sh}
    shell=${shell##*/}
    case :${PATH:-}: in
        *:"$bin":* | *:"$bin"/:*)
            first=$(command -v conductor)
            [ "$first" = "$bin/conductor" ] || [ "$first" = "$bin//conductor" ] || say "Your PATH finds another program first: $first"
            ;;
        *)
            say ''
            case $shell in
                fish) say "Your PATH does not include this folder. Run: fish_add_path $(quoted "$bin")" ;;
                bash | zsh) say "Your PATH does not include this folder. Put this line into ~/.${shell}rc, and open a new terminal:" ;;
                *) say 'Your PATH does not include this folder. Put this line into ~/.profile, and log in again:' ;;
            esac
            case $shell:$bin in
                fish:*) ;;
                *[!0-9A-Za-z/:._\ -]*) say "  export PATH=$(quoted "$bin"):\"\$PATH\"" ;;
                *) say "  export PATH=\"$bin:\$PATH\"" ;;
            esac
            ;;
    esac
    if [ "$shell" = zsh ]; then
        say ''
        say 'For completions, put this line into ~/.zshrc before the line with compinit:'
        say "  fpath=($(quoted "$data/zsh/site-functions") \$fpath)"
    fi
    say ''
    say 'Try it: conductor try'
}

main() {
    set -u
    # With --prefix /usr/local, all users need the new folders.
    umask 022
    LC_ALL=C
    export LC_ALL
    newline='
'
    temporary='' unfinished=''
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 141' PIPE
    trap 'exit 143' TERM
    parse_options "$@"
    choose_folders
    if [ -n "$uninstall" ]; then
        uninstall
        return
    fi
    choose_target
    choose_source
    check_tools
    temporary=$(mktemp -d) ||
        fail 'cannot create a temporary folder: set the environment variable TMPDIR to a folder that you can write to'
    fetch SHA256SUMS
    choose_archive
    say "Installing $archive from $from"
    unpack
    check_program
    install
    say_next_steps
}

{ main "$@"; }
