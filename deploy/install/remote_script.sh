# Runs on a host for `a3cd deploy`, from a folder with `settings` and the files to install. It looks at each thing first
# and prints what it changes; with act=no it changes nothing. It can be run again at any time, also after a failure.
set -eu
umask 022
export LC_ALL=C.UTF-8 SYSTEMD_PAGER=cat SYSTEMD_COLORS=0
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}" # a session by ssh alone may lack it
here=${0%/*}
. "$here/settings"
: "${instances:=}" "${credential:=}" "${key_pair:=no}" "${extras:=}" "${learner:=}" "${insecure:=no}" "${run:=}"
: "${nvidia:=/proc/driver/nvidia}"
a3cd=$venv/bin/a3cd wheels=$venv-wheels keys=$config/keys
first=${instances%% *}
stamp=$venv/started-${first:-$verb} # digest of the files in use; it is missing while a deployment is not finished
all_stamp=$venv/started-all           # digest of what all units share
changed=no fresh=no
STEADY=4 PATIENCE=15 # seconds

# fail CODE TEXT...: 78 where repeating does not help, else 75.
fail() {
    code=75
    case $1 in 2 | 78) code=78 ;; esac
    shift
    echo "$*" >&2
    exit $code
}

# step TEXT COMMAND...: prints a change, and unless act=no runs the command that makes it.
step() {
    echo "$1"
    shift
    changed=yes
    [ "$act" = yes ] || return 0
    rm -f "$stamp"
    failed=0
    "$@" </dev/null >"$here/log" 2>&1 || failed=$?
    why="exit code $failed"
    [ $failed != 124 ] || why="no end within its time"
    [ "$1" != ctl ] || { shift && set -- systemctl "$scope" "$@"; }
    [ $failed = 0 ] || fail $failed "$*: $why: $(tail -c 2000 "$here/log")"
}

# note TEXT: prints, unless act=no, what cannot be changed from here; it is therefore never alone a reason to act.
note() { [ "$act" = no ] || echo "note: $1"; }

ctl() { timeout 120 systemctl "$scope" "$@"; }

# put FILE PATH MODE: copies a file whole or not at all, and never readable by more users than the mode says.
put() { install -D -m "$3" "$1" "$2.partial" && mv -f "$2.partial" "$2"; }

same() { [ -f "$2" ] && [ "$(sha256sum <"$1")$(stat -c %a "$2")" = "$(sha256sum <"$2")644" ]; }

# all KIND FOLDER: puts every file that was sent below KIND into FOLDER.
all() {
    [ -d "$here/$1" ] || return 0
    (cd "$here/$1" && find . -type f | sort) >"$here/list"
    while read -r path; do
        target=$2/${path#./}
        same "$here/$1/$path" "$target" || step "file $target" put "$here/$1/$path" "$target" 644
    done <"$here/list"
}

check_host() {
    command -v systemctl >/dev/null || fail 78 "there is no systemctl: this host does not run systemd"
    [ "$verb" != status ] || return 0
    case $scope$(id -u) in
    --user0) fail 78 "root has system units: leave out --user, or deploy to another user" ;;
    --system[!0]*)
        fail 78 "only root may install system units: deploy to root@HOST, or with --sudo, or --user for user units" ;;
    esac
    [ "$verb" != remove ] || return 0
    version=$(systemctl --version | sed -n '1s/[^0-9]*\([0-9]*\).*/\1/p')
    [ "$scope$key_pair$credential" = --systemno ] || [ "$scope" = --user ] || [ "${version:-250}" -ge 250 ] ||
        fail 78 "systemd is $version here; to pass keys to system units it must be 250 or newer: --user does without"
    command -v "$python" >/dev/null || fail 78 "$python is not there: install Python 3.11 or newer"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail 78 "$python is $("$python" --version); a3cd needs 3.11 or newer: name one with --python"
    used=$python
    [ "$chosen" = yes ] || ! "$venv/bin/python" -c '' 2>/dev/null || used=$venv/bin/python
    where=$("$used" -c 'import os, sys; print(os.path.realpath(sys.executable))')
    case $scope$where in --system/home/* | --system/root/* | --system/run/user/*)
        fail 78 "$used is $where: units may not execute what is below a home; name another Python with" \
            "--python, such as /usr/bin/python3" ;;
    esac
}

# Nobody else changes this host meanwhile, nor what an interrupted deployment has started and left behind.
alone() {
    [ "$act" = yes ] && command -v flock >/dev/null || return 0
    [ -d "$wheels" ] || [ "$verb" != remove ] || return 0
    mkdir -p "$wheels"
    exec 9>"$wheels/lock"
    flock -n 9 || fail 75 "another deployment is at work here"
}

# Ends where the folder of the virtual environment holds something else, which would be lost with it.
nothing_else() {
    found=$(ls -A "$venv" 2>/dev/null | grep -xE '\.git|pyproject\.toml|runs' || true)
    [ -e "$venv/pyvenv.cfg" ] ||
        found=$(ls -A "$venv" 2>/dev/null | grep -vxE 'bin|include|lib|lib64|share|extras|wheel|started-.*' || true)
    [ -z "$found" ] ||
        fail 78 "$venv holds more than a virtual environment ($(echo $found)), which would be removed: move it away"
}

pip() { eval 'timeout 1800 "$venv/bin/python" -m pip install --quiet '"$pip_options"' "$@"'; }

# install_a3cd WHEEL WHAT: installs the versions that a3cd was tested with, or those in a wheelhouse if there is one.
install_a3cd() {
    all=$1${extras:+[$extras]}
    if [ "$index" = yes ]; then
        pip --constraint "$here/constraints.txt" "$all"
    else
        pip --no-index --find-links "$wheels" "$all"
    fi &&
        pip --no-deps --no-index --force-reinstall "$1" && # pip leaves another wheel of the same version alone
        echo "$2" >"$venv/wheel"
}

# The extras that this host already has stay: another role or run may need them.
with_extras() {
    both="$extras,$(cat "$wheels/extras" "$venv/extras" 2>/dev/null | paste -sd , -)"
    echo "$both" | tr , '\n' | sed '/^$/d' | sort -u | paste -sd , -
}

# Makes the virtual environment anew. What a host was given before is remembered elsewhere: pip may fail now.
new_venv() {
    [ ! -e "$venv/extras" ] || put "$venv/extras" "$wheels/extras" 644
    timeout 300 "$python" -m venv --clear "$venv"
}

version_of() { "$1" -c 'import sys; print(sys.version_info[:2], sys.base_prefix)' 2>/dev/null; }

software() {
    extras=$(with_extras)
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 &&
        { [ "$chosen" = no ] || [ "$(version_of "$venv/bin/python")" = "$(version_of "$python")" ]; } ||
        { nothing_else && step "virtual environment $venv of $python" new_venv && fresh=yes; }
    while read -r sum name; do
        echo "$sum  $wheels/$name" | sha256sum -c --status 2>/dev/null ||
            step "wheel $name" put "$here/wheels/$name" "$wheels/$name" 644
    done <"$here/wheels.sha256"
    read -r sum name <"$here/wheels.sha256"
    packages
}

# Installs a3cd and what it needs, as `wheels.sha256`, `constraints.txt` and `extras` say.
packages() {
    what="$sum $(sha256sum <"$here/constraints.txt") $extras"
    [ "$fresh" = no ] && [ -x "$a3cd" ] && [ "$(cat "$venv/wheel" 2>/dev/null)" = "$what" ] && return
    step "a3cd in $venv${extras:+ with $extras}" install_a3cd "$wheels/$name" "$what"
    fresh=no
    [ "$act" = no ] || echo "$extras" >"$wheels/extras"
}

# Adds the extras that actors of the learner's run need, if the learner can be asked, for which a3cd and the credential
# must be here.
ask_learner() {
    [ -n "$learner" ] && [ -x "$a3cd" ] || return 0
    set --
    [ -z "$credential" ] || set -- --credential "$keys/$credential"
    [ "$insecure" = no ] || set -- --insecure
    if timeout 60 "$a3cd" status "$learner" "$@" --extra --timeout 5 >"$here/extra" 2>"$here/log" </dev/null; then
        before=$extras extras=$extras,$(cat "$here/extra")
        extras=$(with_extras)
        [ "$extras" = "$before" ] || packages
        return 0
    fi
    why=$(tail -n 1 "$here/log" | sed 's/.*error: //')
    case $why in
    *"does not let the key"*) fail 78 "$why; or remove $keys/$credential here, for a new key" ;;
    *"only to peers with a key"* | *"was started without keys"*) fail 78 "$why" ;;
    esac
    note "the learner was not asked what its run needs (--extras): $why"
}

# checked RUN FILE: ends here if no learner could begin with these settings, so that one that runs is not stopped.
checked() {
    unit=$(ctl show --property=Environment --value "a3cd-learner@$1.service" | tr ' ' '\n')
    path=$( (echo "$unit" && cat "$config/learner.env" "$config/runs/$1.env" 2>/dev/null) |
        sed -n 's/^PYTHONPATH=//p' | tail -n 1 | tr -d "\"'")
    as=
    [ "$scope" = --user ] || as="runuser -u a3cd --"
    failed=0
    timeout 300 $as env PYTHONPATH="$path" "$a3cd" check-config - --run-dir "$data/$1" \
        <"$2" >"$here/log" 2>&1 || failed=$?
    [ $failed = 0 ] ||
        fail $failed "the settings of run $1 are refused, and nothing was stopped: $(tail -c 2000 "$here/log")"
}

check_settings() {
    [ "$act" = yes ] && ! current || return 0
    [ "$verb" != learner ] || checked "$run" "$here/config/runs/$run.toml"
    for one in $(to_restart | sed -n 's/^a3cd-learner@\(.*\)\.service$/\1/p'); do
        [ ! -f "$config/runs/$one.toml" ] || checked "$one" "$config/runs/$one.toml"
    done
}

users_and_folders() {
    if [ "$scope" = --user ]; then
        [ -d "$keys" ] || step "folder $keys" mkdir -p -m 700 "$keys"
        [ "$(timeout 60 loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null)" = yes ] ||
            step "units run without a login" timeout 60 loginctl enable-linger
    else
        all etc "$etc"
        id $(sed -n 's/^u \([^ ]*\).*/\1/p' "$here/etc/sysusers.d/a3cd.conf") >/dev/null 2>&1 ||
            step users timeout 60 systemd-sysusers "$etc/sysusers.d/a3cd.conf"
        [ "$(stat -c %a "$keys" 2>/dev/null)" = 711 ] ||
            step folders timeout 60 systemd-tmpfiles --create "$etc/tmpfiles.d/a3cd.conf"
    fi
}

access() {
    [ "$key_pair" = no ] || [ -e "$keys/learner.key" ] ||
        step "key pair $keys/learner.key" timeout 60 "$a3cd" keys --keys "$keys" new learner
    [ -z "$credential" ] || [ -e "$keys/$credential" ] ||
        step "credential $credential" put "$here/credential" "$keys/$credential" 600
}

# Whether what runs is what was sent.
current() { [ "$changed" = no ] && [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; }

# state_of UNIT: sets `state` to up, waits (for its learner), refused (by it; the unit goes on trying), starts, over (a
# run that has ended) or down, and `status` to its exit code.
state_of() {
    active='' sub='' result='' status='' text=''
    while IFS='=' read -r key value; do
        case $key in
        ActiveState) active=$value ;;
        SubState) sub=$value ;;
        Result) result=$value ;;
        ExecMainStatus) status=$value ;;
        StatusText) text=$value ;;
        esac
    done <<EOF
$(ctl show --property=ActiveState,SubState,Result,ExecMainStatus,StatusText "$1")
EOF
    case $active/$sub/$result/$text in
    */success/"kept out: "*) state=refused ;;
    */auto-restart/success/* | *activ*/*/success/"waiting for "*) state=waits ;;
    */auto-restart*) state=down ;;
    active/* | reloading/*) state=up ;;
    activating/* | deactivating/*) state=starts ;;
    inactive/*/success/*) state=over ;;
    *) state=down ;;
    esac
}

running() {
    for unit; do
        state_of "$unit"
        case $state in down | over) return 1 ;; esac
    done
}

# Prints those of the units that run, are to be started again, or have failed; not those that somebody stopped.
at_work() { ctl list-units --all --plain --no-legend "$@" | awk '$3 != "inactive" { print $1 }'; }

# Waits until all units have run for some seconds; one that fails ends this with its exit code and its last lines. One
# that waits for its learner may wait on, but not before it had time to be refused.
stays() {
    good=0 seconds=0
    while [ $good -lt "$STEADY" ]; do
        sleep 1
        seconds=$((seconds + 1)) good=$((good + 1))
        for unit; do
            state_of "$unit"
            case $state in
            starts) good=0 ;;
            waits) [ $seconds -ge "$PATIENCE" ] || good=0 ;;
            refused) echo "$unit runs, but is $text" && return 78 ;;
            down)
                echo "$unit does not run: $result, exit code $status; its last lines:"
                timeout 60 journalctl "$scope" -q -u "$unit" -n 10 -o cat
                case $status in 0 | '') return 75 ;; *) return "$status" ;; esac
                ;;
            esac
        done
        [ $seconds -lt 330 ] || { echo "$unit is not ready after $seconds s" && return 75; }
    done
}

restart() {
    [ $# -gt 0 ] || return 0
    ctl reset-failed "$@" 2>/dev/null || true
    ctl restart --no-block "$@" && stays "$@"
}

# Prints the units, besides those deployed, for which something is new: the software and unit files, which all share, or
# the settings and keys of those that play. An upgrade tries those that failed, too.
to_restart() {
    kinds=none
    case $verb in actors | launcher) kinds=evaluator ;; esac
    [ "$(cat "$all_stamp" 2>/dev/null)" = "$shared" ] || kinds='.*'
    [ "$verb" != upgrade ] || { at_work 'a3cd-*.service' && return; }
    ctl list-units --all --plain --no-legend 'a3cd-*.service' | awk '$3 !~ /inactive|failed/ { print $1 }' |
        grep -xE "a3cd-$kinds\.service" | grep -vxF "$(printf '%s\n' $instances)" || true
}

start() {
    current && others= || others=$(to_restart)
    [ "$verb" != launcher ] || others=$(echo "$others" | grep -v '^a3cd-actor@') || true
    [ "$verb" != launcher ] || current ||
        step "restart of its actors" ctl try-restart --no-block 'a3cd-actor@*.service'
    current && running "$@" || step "$*" restart "$@"
    [ -z "$others" ] || step "restart of the others that run" restart $others
    [ "$(ctl is-enabled a3cd.target "$@" 2>/dev/null | sort -u)" = enabled ] ||
        step "start at boot" ctl enable a3cd.target "$@"
    running a3cd.target || step a3cd.target ctl start --no-block a3cd.target
    for unit; do
        state_of "$unit"
        [ "$state" != waits ] || note "$unit waits for its learner: $text"
    done
}

# Prints the actors of an earlier deployment with more slots, by the links of `systemctl enable`; beside a launcher, all.
beyond() {
    for link in "$units"/a3cd.target.wants/a3cd-actor@*.service; do
        slot=${link##*@}
        [ ! -L "$link" ] || [ "${slot%.service}" -lt "$slots" ] || echo "${link##*/}"
    done
}

# Ends a launcher of an earlier deployment: it would stop the actors beyond its own order.
no_launcher() {
    [ ! -L "$units/a3cd.target.wants/a3cd-launcher.service" ] ||
        step "no launcher besides these actors" ctl disable --now a3cd-launcher.service
}

stop_everything() {
    ctl stop a3cd.target 'a3cd-learner@*.service' 'a3cd-relay*.service' a3cd-launcher.service 'a3cd-actor@*.service' \
        'a3cd-evaluator*.service' a3cd.slice &&
        ctl reset-failed 'a3cd-*.service' &&
        # Disabling a template disables all its instances.
        ctl disable a3cd.target a3cd-learner@.service a3cd-actor@.service a3cd-launcher.service &&
        # A host that was set up before there were evaluators and relays has no such units.
        for unit in a3cd-evaluator.service a3cd-relay.service; do
            [ ! -e "$units/$unit" ] || ctl disable "$unit" || return
        done
}

remove() {
    nothing_else
    [ ! -e "$units/a3cd.target" ] || step "nothing runs or starts at boot" stop_everything
    for unit in a3cd-learner@.service a3cd-relay.service a3cd-actor@.service a3cd-launcher.service \
        a3cd-evaluator.service a3cd.slice a3cd.target; do
        set -- "$@" "$units/$unit" "$units/$unit.d/keys.conf" "$units/$unit.d/gpu.conf"
    done
    for path in "$etc/polkit-1/rules.d/50-a3cd.rules" "$etc/sysusers.d/a3cd.conf" "$etc/tmpfiles.d/a3cd.conf" \
        "$@" "$wheels" "$venv"; do
        [ ! -e "$path" ] || step "no $path" rm -rf "$path"
    done
    [ "$changed" = no ] || step "units read again" ctl daemon-reload
    [ "$changed" = no ] || echo "kept: $data (runs) and $config (settings, keys)"
}

check_host
alone
case $verb in
status)
    [ -x "$a3cd" ] || fail 75 "a3cd is not installed: there is no $a3cd"
    timeout 60 "$a3cd" --version
    exec timeout 60 systemctl "$scope" list-units --all --plain --no-legend 'a3cd*'
    ;;
remove)
    remove
    exit
    ;;
esac
cd "$here"
shared=$({ head -n 1 wheels.sha256 && cat constraints.txt units/*.service; } | sha256sum)
digest=$({ echo "$shared" && find . -path './*/*' ! -path './wheels/*' -type f -exec sha256sum {} + | sort; } |
    sha256sum)
software
users_and_folders
access
ask_learner
all units "$units"
[ ! -e "$nvidia" ] || all gpu "$units"
[ "$verb" != learner ] || same "$here/config/runs/$run.toml" "$config/runs/$run.toml" || changed=yes
check_settings
all config "$config"
current || step "units read again" ctl daemon-reload
if [ "$verb" = upgrade ]; then
    broken=$(ctl list-units --state=failed --plain --no-legend 'a3cd-*.service')
    current && [ -z "$broken" ] || step "restart of what runs" restart $(at_work 'a3cd-*.service')
else
    [ "$verb" != actors ] || no_launcher
    start $instances
fi
case $verb in
actors)
    extra=$(beyond)
    [ -z "$extra" ] || step "no actor beyond $slots" ctl disable --now $extra
    ;;
launcher) # it takes over the actors that run
    slots=0 extra=$(beyond)
    [ -z "$extra" ] || step "no actors at boot besides the launcher's" ctl disable $extra
    ;;
esac
[ "$act" = no ] || { echo "$shared" >"$all_stamp" && echo "$digest" >"$stamp"; }
