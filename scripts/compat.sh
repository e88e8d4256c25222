#!/usr/bin/env bash
# Runs the end-to-end tests against the newer servers of Debian's newer suites, one server at a time.
#
#   scripts/compat.sh [SERVER...]     only these, for example rabbitmq@sid redis@trixie; all of them without an argument
#   scripts/compat.sh --list          what there is
#   scripts/compat.sh --fetch         only fetches the suites
#
# Each suite goes once, with debootstrap, into a folder of $LASTUNIT_COMPAT_DIR (~/.cache/lastunit-compat; some 1 GB each;
# delete a suite's folder to fetch it anew). The mirror is the one of this machine's apt, or LASTUNIT_COMPAT_MIRROR. Needs
# root: the servers run in a chroot. They listen on free ports of 127.0.0.1, keep their data in a temporary folder, and
# are gone at the end, after Ctrl-C too; so are the services that are not under test, which scripts/services.sh starts.
#
# At the end a table: each server, the version that it told itself, each test program, and what came of it. The exit
# code is 1 when a test failed, 69 when none did but something could not be run.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/services.sh
source "$scripts/services.sh"

readonly SERVERS=(
    rabbitmq@trixie rabbitmq@sid redis@trixie redis@sid valkey@trixie valkey@sid
    postgres@trixie postgres@sid mariadb@trixie mysql@sid
)
readonly COMMON="rabbitmq-server redis-server valkey-server postgresql"
declare -rA PACKAGES=(
    [trixie]="$COMMON mariadb-server-core mariadb-client-core"
    [sid]="$COMMON mysql-server-core mysql-client-core"
)
# Test programs, then what narrows them: a database's rows are about that database.
declare -rA TESTS=(
    [rabbitmq]="spine broker" [redis]="spine lease losses" [valkey]="spine lease losses"
    [postgres]="spine ledger" [mariadb]="spine ledger" [mysql]="spine ledger"
)
declare -rA NARROW=([postgres]="--skip mariadb --skip sqlite" [mariadb]="mariadb" [mysql]="mariadb")
readonly SUITES=${LASTUNIT_COMPAT_DIR:-$HOME/.cache/lastunit-compat}
readonly SHARED_TMP=${TMPDIR:-/tmp} # where the tests' own servers have their files
RESULTS="" # a file, because each server has a shell of its own

# Runs a program of a suite. The mounts live in a namespace of their own and vanish with it.
readonly ENTER='
    root=$1 tmp=$2
    shift 2
    mkdir -p "$root$tmp"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --bind "$tmp" "$root$tmp"
    exec chroot "$root" "$@"'
inside() { # root program...
    local root=$1
    shift
    unshare --mount bash -ec "$ENTER" inside "$root" "$SHARED_TMP" "$@"
}

# The same as a server: whatever it starts dies with it.
serve() { # name root program...
    local name=$1 root=$2
    shift 2
    launch "$name" unshare --mount --pid --fork --kill-child bash -ec "$ENTER" inside "$root" "$SHARED_TMP" "$@"
}

quietly() { "$@" >/dev/null 2>&1; }

# --- Fetching a suite --------------------------------------------------------------------------------------------

mirror() {
    local found=${LASTUNIT_COMPAT_MIRROR:-}
    [[ -n $found ]] ||
        found=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1)
    echo "${found:-http://deb.debian.org/debian}"
}

fetch() { # suite
    local root=$SUITES/$1 done=$SUITES/$1/.lastunit-packages log=$SUITES/$1.log
    [[ ! -e $done || $(<"$done") != "${PACKAGES[$1]}" ]] || return 0
    command -v debootstrap >/dev/null || install_package debootstrap
    mkdir -p "$SUITES"
    say "$1: fetching into $root; its log is $log"
    if [[ ! -e $root/.lastunit-base ]]; then
        rm -rf "$root"
        debootstrap --variant=minbase "$1" "$root" "$(mirror)" >"$log" 2>&1 || return 1
        # No server is started by its package, no cluster made, and localhost has an address.
        printf '#!/bin/sh\nexit 101\n' | install -m 755 /dev/stdin "$root/usr/sbin/policy-rc.d"
        printf 'create_main_cluster = false\n' | install -D -m 644 /dev/stdin "$root/etc/postgresql-common/createcluster.conf"
        printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
        # Proxies, and how old an index may be.
        apt-config dump | grep -E '^Acquire::(Check-|https?::)' >"$root/etc/apt/apt.conf.d/90as-outside" || true
        touch "$root/.lastunit-base"
    fi
    # shellcheck disable=SC2086 # a list of words
    inside "$root" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update && apt-get install -y --no-install-recommends "$@"' sh ${PACKAGES[$1]} >>"$log" 2>&1 || return 1
    echo "${PACKAGES[$1]}" >"$done"
}

# --- Starting one ------------------------------------------------------------------------------------------------

begin_rabbitmq() { # root port
    local root=$1 home=$FOLDER/rabbitmq
    mkdir -p "$home"
    printf '' >"$home/rabbitmq.conf"
    printf '[].' >"$home/enabled_plugins"
    serve rabbitmq "$root" env HOME="$home" ERL_EPMD_PORT="$(free_port)" ERL_EPMD_ADDRESS=127.0.0.1 \
        RABBITMQ_NODENAME="lastunit-$$@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$2" \
        RABBITMQ_DIST_PORT="$(free_port)" RABBITMQ_MNESIA_BASE="$home/data" RABBITMQ_LOG_BASE="$home/log" \
        RABBITMQ_PID_FILE="$home/pid" RABBITMQ_CONFIG_FILE="$home/rabbitmq.conf" RABBITMQ_LOGS=- \
        RABBITMQ_ENABLED_PLUGINS_FILE="$home/enabled_plugins" /usr/lib/rabbitmq/bin/rabbitmq-server
    await rabbitmq rabbitmq_answers "$2"
    export LASTUNIT_TEST_RABBITMQ_URL="amqp://guest:guest@127.0.0.1:$2/%2f"
    # From the greeting: the server's properties.
    exec 3<>"/dev/tcp/127.0.0.1/$2"
    printf 'AMQP\0\0\11\1' >&3
    VERSION="RabbitMQ $(head -c 500 <&3 | tr -cd '[:print:]' | grep -o 'versionS[0-9.]*' | tr -d 'a-zS')"
    exec 3>&-
}

# The tests start more of them: those are of the same version too, because they find these programs first.
begin_redis() { # root port [redis or valkey]
    local root=$1 port=$2 kind=${3:-redis} program
    mkdir -p "$FOLDER/bin"
    for program in server cli; do
        printf '#!/bin/bash\nexec unshare --mount bash -ec %q inside %q %q /usr/bin/%s-%s "$@"\n' \
            "$ENTER" "$root" "$SHARED_TMP" "$kind" "$program" >"$FOLDER/bin/redis-$program"
        chmod 755 "$FOLDER/bin/redis-$program"
    done
    export PATH=$FOLDER/bin:$PATH
    serve "$kind" "$root" "/usr/bin/$kind-server" --bind 127.0.0.1 --port "$port" --save '' --dir "$FOLDER"
    await "$kind" redis_answers "$port"
    export LASTUNIT_TEST_REDIS_URL="redis://127.0.0.1:$port"
    VERSION="$kind $(inside "$root" "/usr/bin/$kind-cli" -p "$port" INFO server | sed -n "s/^${kind}_version:\([0-9.]*\).*/\1/p")"
}

begin_valkey() { begin_redis "$1" "$2" valkey; } # root port

begin_postgres() { # root port
    local root=$1 data=$FOLDER/postgres bin as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    bin=$(compgen -G "$root/usr/lib/postgresql/*/bin" | sort -V | tail -n 1)
    bin=${bin#"$root"}
    inside "$root" install -d -o postgres -g postgres "$data"
    inside "$root" "${as_user[@]}" "$bin/initdb" -D "$data/data" -U postgres -A trust -E UTF8 --no-locale -N \
        >"$FOLDER/initdb.log" 2>&1 || { tail -n 20 "$FOLDER/initdb.log" >&2 && return 1; }
    serve postgres "$root" "${as_user[@]}" "$bin/postgres" -D "$data/data" -p "$2" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories="$data" -c max_connections=300
    await postgres quietly inside "$root" psql -w -h 127.0.0.1 -p "$2" -U postgres -c 'select 1'
    export LASTUNIT_TEST_POSTGRES_URL="postgres://postgres@127.0.0.1:$2/postgres"
    VERSION="PostgreSQL $(inside "$root" psql -h 127.0.0.1 -p "$2" -U postgres -tAc 'show server_version' | cut -d ' ' -f 1)"
}

begin_mariadb() { # root port
    local data=$FOLDER/data common=(--no-defaults --user=root "--datadir=$FOLDER/data")
    mkdir -p "$data"
    inside "$1" mariadb-install-db "${common[@]}" --auth-root-authentication-method=normal --skip-test-db \
        >"$FOLDER/install.log" 2>&1 || { tail -n 20 "$FOLDER/install.log" >&2 && return 1; }
    serve mariadb "$1" mariadbd "${common[@]}" --socket="$data/socket" --pid-file="$data/pid" \
        --bind-address=127.0.0.1 --port="$2" --max-connections=300
    ask_mysql mariadb "$@"
}

begin_mysql() { # root port
    local data=$FOLDER/data common=(--no-defaults --user=root "--datadir=$FOLDER/data")
    inside "$1" mysqld "${common[@]}" --secure-file-priv= --initialize-insecure >"$FOLDER/install.log" 2>&1 ||
        { tail -n 20 "$FOLDER/install.log" >&2 && return 1; }
    serve mysql "$1" mysqld "${common[@]}" --socket="$data/socket" --pid-file="$data/pid" --mysqlx=OFF --secure-file-priv= \
        --bind-address=127.0.0.1 --port="$2" --max-connections=300
    ask_mysql mysql "$@"
}

# The tests know both by one name.
ask_mysql() { # client root port
    local ask=(inside "$2" "$1" --no-defaults -h 127.0.0.1 -P "$3" -u root -N -B -e)
    await "$1" quietly "${ask[@]}" 'select 1'
    export LASTUNIT_TEST_MARIADB_URL="mysql://root@127.0.0.1:$3/mysql"
    VERSION="$("${ask[@]}" "select concat('$1 ', substring_index(version(), '-', 1))")"
}

# --- Testing -----------------------------------------------------------------------------------------------------

report() { printf '%-16s %-20s %-7s %s\n' "$@" >>"$RESULTS"; } # server version test result

# In a shell of its own, which stops its servers however it ends.
try() ( # server
    set -e
    server=$1 service=${1%@*} suite=${1#*@} VERSION=""
    fetch "$suite" || { report "$server" - - "not run: the suite could not be fetched, see $SUITES/$suite.log" && exit; }
    FOLDER=$FOLDER/$server STARTED=()
    mkdir "$FOLDER"
    trap 'status=$?; trap "" INT TERM HUP; stop_servers; rm -rf "$FOLDER"; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    "begin_$service" "$SUITES/$suite" "$(free_port)"
    say "$server: it says that it is $VERSION"
    for test in ${TESTS[$service]}; do run_test "$test" "${NARROW[$service]:-}"; done
)

run_test() { # test narrow
    local log=$FOLDER/test.log result
    # shellcheck disable=SC2086 # a list of words
    (cd "$scripts/.." && ${CARGO:-cargo} test --features checkpoints --locked --test "$1" -- $2) 2>&1 | tee "$log" || true
    result=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$log")
    report "$server" "$VERSION" "$1" "${result:-FAILED: the test program did not finish}"
}

end() {
    local status=$?
    trap '' INT TERM HUP
    if [[ -s $RESULTS ]]; then
        printf '\n%-16s %-20s %-7s %s\n' server version tests result
        cat "$RESULTS"
    fi
    if ((status == 0)) && grep -qE 'FAILED|[1-9][0-9]* failed' "$RESULTS"; then status=1; fi
    if ((status == 0)) && grep -q 'not run' "$RESULTS"; then status=$UNAVAILABLE; fi
    rm -rf "$FOLDER"
    exit "$status"
}

compat() {
    local server suite status
    if [[ ${1:-} == --list ]]; then
        printf '%s\n' "${SERVERS[@]}"
        return
    fi
    ((EUID == 0)) || die "root is needed: the servers run in a chroot, and their packages are installed there"
    # The services that are not under test, private as well: an interrupted test leaves its databases and queues on them.
    [[ -n ${LASTUNIT_COMPAT_INSIDE:-} ]] || LASTUNIT_COMPAT_INSIDE=yes LASTUNIT_SERVICES=private exec \
        "$scripts/services.sh" run rabbitmq redis postgres mariadb -- "$scripts/compat.sh" "$@"
    FOLDER=$(mktemp -d "$SHARED_TMP/lastunit-compat.XXXXXX")
    chmod 755 "$FOLDER" # the user postgres must reach its folder inside
    RESULTS=$FOLDER/results
    : >"$RESULTS"
    trap end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    if [[ ${1:-} == --fetch ]]; then
        for suite in "${!PACKAGES[@]}"; do fetch "$suite" || die "$suite could not be fetched, see $SUITES/$suite.log"; done
        return
    fi
    (($# > 0)) || set -- "${SERVERS[@]}"
    for server in "$@"; do
        [[ " ${SERVERS[*]} " == *" $server "* ]] || die "unknown server $server; there are: ${SERVERS[*]}" $USAGE
    done
    for server in "$@"; do
        set +e # after an || a function would not stop at its first failure
        try "$server"
        status=$?
        set -e
        ((status < 128)) || exit $status # Ctrl-C
        grep -q "^$server " "$RESULTS" || report "$server" - - "not run: it did not start"
    done
}

compat "$@"
