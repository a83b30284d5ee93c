package config

import (
	"errors"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

var envName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkEnvName checks that a variable of the host may be passed to the agent. A
// repository must not ask for one that changes how programs run, because its
// value is meant for the host. Users may pass any.
func checkEnvName(name string, from OriginKind) error {
	if !envName().MatchString(name) {
		if before, _, found := strings.Cut(name, "="); found && envName().MatchString(before) {
			return hint.Wrap(errors.New("must be a name without a value"), "set the variable in the environment, and pass its name: %s", before)
		}
		return errors.New("invalid variable name: use letters, digits and underscores")
	}
	if name == GuestEnv {
		return errors.New("reserved for docker ralph")
	}
	if from == FromRepository && changesPrograms(name) {
		return hint.Wrap(errors.New("a repository must not pass a variable that changes how programs run"),
			"if you need it, set env.pass in ralph/config.toml in Docker's configuration directory")
	}
	return nil
}

// changesPrograms reports whether a variable makes programs load, run or trust
// something. Like some programs, it ignores case.
func changesPrograms(name string) bool {
	upper := strings.ToUpper(name)
	for _, prefix := range []string{
		"LD_", "DYLD_", "GIT_", "DOCKER_", "BUILDKIT_", "BUILDX_", "COMPOSE_", "RALPH_", "BASH_", "NPM_CONFIG_",
		"SSH_", "SUDO_", "XDG_", "CARGO_BUILD_", "CARGO_TARGET_", "PIP_", "UV_",
	} {
		if strings.HasPrefix(upper, prefix) {
			return true
		}
	}
	return programVariables()[upper]
}

func programVariables() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`
		PATH HOME SHELL USER LOGNAME PWD TMPDIR TMP TEMP TERM TERMINFO IFS ENV CDPATH GLOBIGNORE PS4 PROMPT_COMMAND
		SHELLOPTS BASHOPTS ZDOTDIR FPATH
		GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH HOSTALIASES RES_OPTIONS LOCALDOMAIN MALLOC_CHECK_
		NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NODE_REPL_EXTERNAL_MODULE BUN_OPTIONS
		DENO_DIR PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONEXECUTABLE
		PYTHONWARNINGS VIRTUAL_ENV CONDA_PREFIX PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB GEM_HOME GEM_PATH
		BUNDLE_GEMFILE PHPRC PHP_INI_SCAN_DIR LUA_INIT LUA_PATH LUA_CPATH CLASSPATH JAVA_HOME JAVA_TOOL_OPTIONS
		_JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS GOFLAGS GOPATH GOROOT GOENV GOPROXY GONOSUMDB GONOSUMCHECK
		GOSUMDB GOINSECURE GOTOOLCHAIN CC CXX AR MAKEFLAGS MAKEFILES CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS
		RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
		EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE
		HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR OPENSSL_CONF OPENSSL_ENGINES
		REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CURL_HOME WGETRC NETRC KUBECONFIG SYSTEMROOT COMSPEC PATHEXT
	`) {
		names[name] = true
	}
	return names
}
