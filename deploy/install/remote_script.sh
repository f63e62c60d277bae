# Runs on a host for `a3cd deploy`, from a folder with `settings` and the files to install. Looks at each thing first and
# prints what it changes; with act=no it changes nothing. Can be run again at any time, also after a failure.
set -eu
umask 022
export LC_ALL=C.UTF-8 SYSTEMD_PAGER=cat SYSTEMD_COLORS=0
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}" # a session by ssh alone may lack it
here=${0%/*}
. "$here/settings"
: "${instances:=}" "${credential:=}" "${key_pair:=no}"
a3cd=$venv/bin/a3cd wheels=$venv-wheels keys=$config/keys
first=${instances%% *}
stamp=$venv/started-${first:-$verb} # digest of the files in use; it is missing while a deployment is not finished
changed=no

fail() {
    echo "$*" >&2
    exit 1
}

# step TEXT COMMAND...: a change, and the command that makes it.
step() {
    echo "$1"
    shift
    changed=yes
    [ "$act" = yes ] || return 0
    rm -f "$stamp"
    "$@" </dev/null >"$here/log" 2>&1 || fail "$*: exit code $?: $(tail -c 2000 "$here/log")"
}

# put FILE PATH MODE: whole or not at all, and never readable by more than the mode says.
put() { install -D -m "$3" "$1" "$2.partial" && mv -f "$2.partial" "$2"; }

same() { [ -f "$2" ] && [ "$(sha256sum <"$1")$(stat -c %a "$2")" = "$(sha256sum <"$2")644" ]; }

# all KIND FOLDER: every file that was sent below KIND is in FOLDER.
all() {
    [ -d "$here/$1" ] || return 0
    (cd "$here/$1" && find . -type f | sort) >"$here/list"
    while read -r path; do
        target=$2/${path#./}
        same "$here/$1/$path" "$target" || step "file $target" put "$here/$1/$path" "$target" 644
    done <"$here/list"
}

check_host() {
    command -v systemctl >/dev/null || fail "there is no systemctl: this host does not run systemd"
    [ "$verb" != status ] || return 0
    [ "$scope" = --user ] || [ "$(id -u)" = 0 ] ||
        fail "only root may install system units: deploy to root@HOST, or with --sudo, or --user for user units"
    [ "$verb" != remove ] || return 0
    command -v "$python" >/dev/null || fail "$python is not there: install Python 3.11 or newer"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$python is $("$python" --version); a3cd needs 3.11 or newer: name one with --python"
}

pip() { "$venv/bin/python" -m pip install --quiet "$@"; }

install_a3cd() {
    if [ "$index" = yes ]; then pip "$1"; else pip --no-index --find-links "$wheels" "$1"; fi &&
        pip --no-deps --no-index --force-reinstall "$1" && # pip leaves another wheel of the same version alone
        echo "$2" >"$venv/wheel"
}

software() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
        step "virtual environment $venv" "$python" -m venv --clear "$venv"
    while read -r sum name; do
        echo "$sum  $wheels/$name" | sha256sum -c --status 2>/dev/null ||
            step "wheel $name" put "$here/wheels/$name" "$wheels/$name" 644
    done <"$here/wheels.sha256"
    read -r sum name <"$here/wheels.sha256"
    [ -x "$a3cd" ] && [ "$(cat "$venv/wheel" 2>/dev/null)" = "$sum" ] ||
        step "a3cd in $venv" install_a3cd "$wheels/$name" "$sum"
}

users_and_folders() {
    if [ "$scope" = --user ]; then
        [ -d "$keys" ] || step "folder $keys" mkdir -p -m 700 "$keys"
        [ "$(loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null)" = yes ] ||
            step "units run without a login" loginctl enable-linger
    else
        all etc "$etc"
        id $(sed -n 's/^u \([^ ]*\).*/\1/p' "$here/etc/sysusers.d/a3cd.conf") >/dev/null 2>&1 ||
            step users systemd-sysusers "$etc/sysusers.d/a3cd.conf"
        [ -d "$keys" ] || step folders systemd-tmpfiles --create "$etc/tmpfiles.d/a3cd.conf"
    fi
}

access() {
    [ "$key_pair" = no ] || [ -e "$keys/learner.key" ] ||
        step "key pair of the learner" "$a3cd" keys --keys "$keys" new learner
    [ -z "$credential" ] || [ -e "$keys/$credential" ] ||
        step "credential $credential" put "$here/credential" "$keys/$credential" 600
}

# What runs is what was sent.
current() { [ "$changed" = no ] && [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; }

running() {
    states=$(systemctl "$scope" is-active "$@") || true
    [ -n "$states" ] && ! echo "$states" | grep -qvxE 'active|activating|reloading'
}

# A learner is waited for, so that a run that cannot begin is reported at once.
restart() {
    [ "$verb" = learner ] || set -- --no-block "$@"
    systemctl "$scope" restart "$@" && return
    journalctl "$scope" -q -u "$first" -n 10 -o cat
    return 1
}

again() { step "$1" systemctl "$scope" try-restart --no-block 'a3cd-actor@*.service' ${2-}; }

start() {
    [ "$verb" != launcher ] || current || again "restart of its actors"
    current && running "$@" || step "$*" restart "$@"
    [ "$(systemctl "$scope" is-enabled a3cd.target "$@" 2>/dev/null | sort -u)" = enabled ] ||
        step "start at boot" systemctl "$scope" enable a3cd.target "$@"
    running a3cd.target || step a3cd.target systemctl "$scope" start --no-block a3cd.target
}

# Actors of an earlier deployment with more slots, by the links of `systemctl enable`.
beyond() {
    for link in "$units"/a3cd.target.wants/a3cd-actor@*.service; do
        slot=${link##*@}
        [ ! -L "$link" ] || [ "${slot%.service}" -lt "$slots" ] || echo "${link##*/}"
    done
}

stop_everything() {
    systemctl "$scope" stop a3cd.target 'a3cd-learner@*.service' a3cd-launcher.service 'a3cd-actor@*.service' a3cd.slice &&
        systemctl "$scope" reset-failed 'a3cd-*.service' &&
        # Disabling a template disables all its instances.
        systemctl "$scope" disable a3cd.target a3cd-learner@.service a3cd-actor@.service a3cd-launcher.service
}

remove() {
    [ ! -e "$units/a3cd.target" ] || step "nothing runs or starts at boot" stop_everything
    for unit in a3cd-learner@.service a3cd-actor@.service a3cd-launcher.service a3cd.slice a3cd.target; do
        set -- "$@" "$units/$unit" "$units/$unit.d/keys.conf"
    done
    for path in "$etc/polkit-1/rules.d/50-a3cd.rules" "$etc/sysusers.d/a3cd.conf" "$etc/tmpfiles.d/a3cd.conf" \
        "$@" "$wheels" "$venv"; do
        [ ! -e "$path" ] || step "no $path" rm -rf "$path"
    done
    [ "$changed" = no ] || step "units read again" systemctl "$scope" daemon-reload
    [ "$changed" = no ] || echo "kept: $data (runs) and $config (settings, keys)"
}

check_host
case $verb in
status)
    [ -x "$a3cd" ] || fail "a3cd is not installed: there is no $a3cd"
    "$a3cd" --version
    exec systemctl "$scope" list-units --all --plain --no-legend 'a3cd*'
    ;;
remove)
    remove
    exit
    ;;
esac
cd "$here"
digest=$({
    head -n 1 wheels.sha256
    find . -path './*/*' ! -path './wheels/*' -type f -exec sha256sum {} + | sort
} | sha256sum)
software
users_and_folders
all units "$units"
access
all config "$config"
current || step "units read again" systemctl "$scope" daemon-reload
if [ "$verb" = upgrade ]; then
    current || again "restart of what runs" 'a3cd-learner@*.service a3cd-launcher.service'
else
    start $instances
fi
extra=$([ "$verb" != actors ] || beyond)
[ -z "$extra" ] || step "no actor beyond $slots" systemctl "$scope" disable --now $extra
[ "$act" = no ] || echo "$digest" >"$stamp"
