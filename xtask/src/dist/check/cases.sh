# What install.sh installs, and what it refuses. `cargo xtask test --only dist` runs this on the bare system, with these
# variables: VERSION and COMMIT of the release in /release, TARGET and ARCHIVE of this machine, OTHER_ARCHIVE and
# OTHER_MACHINE of the other platform, and SERVER, the address of the web server.
# shellcheck shell=sh
set -eu

install='sh /install.sh --from /release'
program=/root/.local/bin/conductor
zeros=$(printf %064d 0)

case_() { title=$1; echo "install.sh: $title"; }
fail() { printf 'install.sh: %s: %s\n' "$title" "$*" >&2; exit 1; }

# expect TEXT WORDS: the text contains the words.
expect() { case $1 in *"$2"*) ;; *) fail "expected \"$2\" in: $1" ;; esac }

# succeed COMMANDS: they succeed. Their output is in $text.
succeed() { text=$(sh -c "$1" 2>&1 </dev/null) || fail "this failed: $1: $text"; }

# The files that an installation can change, with their checksums.
snapshot() { find /root /tmp /opt /usr/local -type f -exec sha256sum {} + | sort; }

# refused COMMANDS WORDS: they fail with these words, and change no file.
refused() {
    before=$(snapshot)
    if text=$(sh -c "$1" 2>&1 </dev/null); then fail "\`$1\` was not refused: $text"; fi
    expect "$text" "$2"
    [ "$(snapshot)" = "$before" ] || fail "\`$1\` was refused but has changed files"
}

# works PROGRAM: it is the program of this release, and a chain answers.
works() {
    succeed "'$1' --version"; expect "$text" "conductor $VERSION"
    succeed "'$1' --version --verbose"; expect "$text" "commit: $COMMIT ("
    succeed "'$1' try --prompt hello"; expect "$text" 'Hello!'
}

# The programs that download are taken out of the path, and put back.
hide() { mv "/usr/bin/$1" "/$1"; }
show() { mv "/$1" "/usr/bin/$1"; }

# faulty WORDS COMMANDS: a release that these commands have changed is refused.
faulty() {
    rm -rf /faulty
    cp -r /release /faulty
    (cd /faulty && eval "$2")
    refused 'sh /install.sh --from file:///faulty/' "$1"
}

# later FOLDER VERSION TEXT: writes a release whose program only prints a text. It has no completions.
later() {
    name=conductor-$2-$TARGET
    mkdir -p "$1/$name/man/man1"
    printf '#!/bin/sh\necho %s\n' "$3" >"$1/$name/conductor"
    chmod 755 "$1/$name/conductor"
    echo later >"$1/$name/man/man1/conductor.1"
    tar -C "$1" -czf "$1/$name.tar.gz" "$name"
    rm -r "${1:?}/$name"
    (cd "$1" && sha256sum -- "$name.tar.gz" >SHA256SUMS)
}

case_ 'without curl and wget'
hide curl
hide wget
refused "sh /install.sh --from $SERVER/files" 'curl and wget are missing'

case_ 'from a folder'
succeed "$install"
expect "$text" "conductor $VERSION is installed: $program"
# shellcheck disable=SC2016 # the script prints this line for the user's shell
expect "$text" 'export PATH="/root/.local/bin:$PATH"'
for path in bash-completion/completions/conductor zsh/site-functions/_conductor \
    fish/vendor_completions.d/conductor.fish conductor/conductor.ps1 man/man1/conductor.1 \
    doc/conductor/LICENSE-MIT doc/conductor/sbom.cdx.json; do
    [ -e "/root/.local/share/$path" ] || fail "$path is missing"
done
works $program

case_ 'a second run changes nothing'
before=$(snapshot)
succeed "umask 077; $install"
[ "$(stat -c %a $program)" = 755 ] || fail 'other users cannot run the program'
[ "$(snapshot)" = "$before" ] || fail 'the files are different after a second run'

case_ 'wrong checksums and incomplete files are refused'
wrong="the checksum of $ARCHIVE is wrong, so it is not installed"
# shellcheck disable=SC2016 # `faulty` evaluates these
faulty "$wrong" 'middle=$(($(wc -c <"$ARCHIVE") / 2))
    byte=$(od -An -tu1 -j $middle -N 1 "$ARCHIVE")
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$ARCHIVE" bs=1 seek=$middle conv=notrunc status=none'
faulty "$wrong" "truncate -s -1 $ARCHIVE"
faulty "$wrong" "sed -i 's/.*  $ARCHIVE\$/$zeros  $ARCHIVE/' SHA256SUMS"
faulty 'has no checksum of an archive conductor-VERSION-' "sed -i s/$ARCHIVE/other.tar.gz/ SHA256SUMS"
for sum in '' 123 "$(echo "$zeros" | tr 0 x)" "${zeros#0}"; do
    faulty SHA256SUMS "echo '$sum  $ARCHIVE' >SHA256SUMS"
done
# The last line of an incomplete download has no end.
faulty 'has no checksum' "printf %s '$zeros  $ARCHIVE' >SHA256SUMS"
faulty 'cannot get' 'rm SHA256SUMS'
faulty 'cannot get' "rm $ARCHIVE"
faulty 'is not version' "later . 98.0.0 'conductor 1.2.3'"

case_ 'faulty downloads are refused'
for url in http://example.org/x ftp://127.0.0.1/x http://localhost:1@example.org; do
    refused "sh /install.sh --from $url" 'use an https URL'
done
mkdir /careless
printf '#!/bin/sh\necho "note: TLS certificate validation not implemented" >&2\n' >/careless/wget
chmod 755 /careless/wget
refused "PATH=/careless:$PATH sh /install.sh --from https://localhost/x" \
    'this wget does not check the certificate of the server: install curl first'
for download in curl wget; do
    show $download
    refused "CONDUCTOR_DOWNLOAD_URL=$SERVER/cut sh /install.sh" "$ARCHIVE"
    refused "CONDUCTOR_DOWNLOAD_URL=$SERVER/nowhere sh /install.sh" 'cannot get'
    hide $download
done

case_ 'other platforms'
# pretend SYSTEM MACHINE: `uname` in /pretend describes another machine.
pretend() {
    mkdir -p /pretend
    # shellcheck disable=SC2016 # the program reads its own argument
    printf '#!/bin/sh\n[ "$1" = -s ] && echo %s || echo %s\n' "$1" "$2" >/pretend/uname
    chmod 755 /pretend/uname
}
while read -r system machine words; do
    pretend "$system" "$machine"
    refused "PATH=/pretend:$PATH $install" "$words"
done <<'END'
Darwin arm64 there is no archive for Darwin. Install Rust
FreeBSD amd64 there is no archive for FreeBSD
Linux riscv64 there is no archive for Linux on riscv64
Linux armv7l there is no archive for Linux on armv7l
END
# The program for the other processor runs only if this machine has an emulator for it.
pretend Linux "$OTHER_MACHINE"
text=$(PATH=/pretend:$PATH $install 2>&1) || true
expect "$text" "Installing $OTHER_ARCHIVE"
succeed "$install"
works $program

case_ 'invalid options and folders are refused'
while IFS='|' read -r options words; do
    refused "sh /install.sh $options" "$words"
done <<'END'
--verison 1|unknown option --verison
--version|--version needs a value
--version latest|latest is not a version
--version 1/../2|1/../2 is not a version
--prefix=|the value of --prefix is empty
--from /nowhere|/nowhere is not a folder
--from /release --version 1.2.3|no checksum of an archive conductor-1.2.3-
--from /release --bin-dir /etc/passwd/bin|cannot create the folder
--from /release --bin-dir /proc/self|cannot write to /proc/self
END
refused "env -u HOME $install" 'HOME is not set'
refused "$install --prefix '/opt/a
/etc'" 'contains a line break'
refused "TMPDIR=/nowhere $install" 'set the environment variable TMPDIR'
succeed 'sh /install.sh --help'
expect "$text" 'usage: sh install.sh'

case_ 'an incomplete script does nothing'
before=$(snapshot)
length=$(wc -c </install.sh)
count=0
for cut in $(seq 1 97 "$length") $(seq $((length - 20)) $((length - 2))); do
    head -c "$cut" /install.sh |
        CONDUCTOR_DOWNLOAD_URL=/release sh -s -- --prefix /usr/local >/dev/null 2>&1 || true
    count=$((count + 1))
done
[ $count -gt 100 ] || fail "only $count incomplete runs"
[ "$(snapshot)" = "$before" ] || fail "after $count incomplete runs, there are other files"

case_ 'an upgrade while the program runs'
mkfifo /requests /answers
$program demo-agent </requests >/answers &
agent=$!
exec 3>/requests 4</answers
ask() {
    echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}" >&3
    read -r answer <&4 || fail 'the running program has exited'
    expect "$answer" '"result"'
}
ask initialize '{"protocolVersion":1}'
later /later 99.0.0 'conductor 99.0.0'
succeed 'sh /install.sh --from /later'
expect "$text" 'conductor 99.0.0 is installed'
succeed $program
expect "$text" 99.0.0
ask session/new '{"cwd":"/","mcpServers":[]}'
exec 3>&-
wait $agent || fail "the running program exited with status $?"
exec 4<&-
# The later release has no completions.
[ ! -e /root/.local/share/fish/vendor_completions.d/conductor.fish ] || fail 'an old file is left'

case_ 'several versions'
cp -r /release /both
cp /later/*.tar.gz /both
cat /later/SHA256SUMS >>/both/SHA256SUMS
refused 'sh /install.sh --from /both' 'several versions: choose one with --version'
succeed "sh /install.sh --from /both --version v$VERSION"
works $program

case_ uninstall
uninstall() { succeed 'sh /install.sh --uninstall'; }
echo 'a file of the user' >/root/.local/share/other
uninstall
expect "$text" 'Conductor is removed'
[ -e /root/.local/share/other ] || fail 'a file of the user is removed'
left=$(snapshot | grep conductor) && fail "these files are left: $left"
rm /root/.local/share/other
uninstall
expect "$text" 'Nothing to remove'

case_ 'downloads with curl and with wget'
for download in curl wget; do
    show $download
    # As the documentation shows it, the script comes through a pipe.
    for command in "CONDUCTOR_DOWNLOAD_URL=$SERVER/files/ sh /install.sh" \
        'cat /install-from-releases.sh | sh' \
        "cat /install-from-releases.sh | sh -s -- --version $VERSION"; do
        succeed "$command"
        works $program
        uninstall
    done
    refused 'sh /install-from-releases.sh --version 1.2.3' 'cannot get'
    hide $download
done

case_ 'other folders'
succeed "cd /opt && umask 077 && $install --prefix 'my folder'"
works '/opt/my folder/bin/conductor'
[ "$(stat -c %a '/opt/my folder/bin')" = 755 ] || fail 'other users cannot enter the folder'
[ -e '/opt/my folder/share/man/man1/conductor.1' ] || fail 'the manual page is missing'
succeed "sh /install.sh --prefix '/opt/my folder' --uninstall"
succeed "XDG_DATA_HOME=/opt/data $install --bin-dir=/usr/local/bin"
works /usr/local/bin/conductor
[ -e /opt/data/man/man1/conductor.1 ] || fail 'the manual page is missing'
# Another program of the same name comes first.
succeed "PATH=/usr/local/bin:/root/.local/bin:$PATH $install"
expect "$text" 'Your PATH finds another program first: /usr/local/bin/conductor'
succeed 'XDG_DATA_HOME=/opt/data sh /install.sh --uninstall'
succeed "PATH=/usr/local/bin:/root/.local/bin:$PATH SHELL=/bin/zsh $install"
# shellcheck disable=SC2016 # the script prints this line for the user's shell
expect "$text" 'fpath=('\''/root/.local/share/zsh/site-functions'\'' $fpath)'
uninstall

# An upgrade must not remove the new files because it knows the old ones under another path.
case_ 'several paths of one folder'
mkdir /opt/place
ln -s /opt/place /opt/link
for path in place /opt/place/ /opt/place// /opt/../opt/place /opt/link; do
    succeed "cd /opt && $install --prefix $path"
    works /opt/place/bin/conductor
done
succeed "PATH=/opt/place/bin:$PATH $install --prefix /opt/place/"
case $text in *PATH*) fail "the folder is in the PATH, but the script says: $text" ;; esac
succeed 'sh /install.sh --prefix /opt/link --uninstall'
left=$(snapshot | grep ' /opt/place') && fail "these files are left: $left"

# The line that the script prints for the PATH works with every name of a folder.
case_ 'names with quotes and spaces'
# shellcheck disable=SC2016 # the name of the folder contains these characters
odd='/opt/o'\''d "$PATH` *[x]'
mkdir "$odd"
HOME=$odd $install >/opt/text
grep 'export PATH' /opt/text >/opt/line
# shellcheck disable=SC1091 # it is written above
text=$(export HOME="$odd" && . /opt/line && conductor --version && sh /install.sh --uninstall)
expect "$text" "conductor $VERSION"
rm -rf "$odd" /opt/text /opt/line

case_ 'another program of the same name is kept'
mkdir -p /opt/other/bin
printf '#!/bin/sh\necho another program\n' >/opt/other/bin/conductor
chmod 755 /opt/other/bin/conductor
refused "$install --prefix /opt/other" 'exists, and this script has not installed it'
rm /opt/other/bin/conductor
succeed "$install --prefix /opt/other"
succeed 'sh /install.sh --prefix /opt/other --uninstall'

# Checksums of other files, the mark of binary files, and the line ends of Windows.
case_ 'other forms of SHA256SUMS'
cp -r /release /sums
sed -i 's/^\([^ ]*\)  \(.*\)$/\1 *debug-\2\r\n\1 *\2\r\n\1 *\2.sig\r/' /sums/SHA256SUMS
succeed 'sh /install.sh --from /sums'
works $program
uninstall

# A named pipe without a writer stops the script until the signal comes.
case_ 'a signal removes the temporary files'
mkdir /pipe
mkfifo /pipe/SHA256SUMS
for signal in TERM HUP INT; do
    refused "timeout -s $signal 1 sh /install.sh --from /pipe" ''
    left=$(find /tmp -name 'tmp.*')
    [ -z "$left" ] || fail "after $signal, these files are left: $left"
done
