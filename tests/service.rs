//! What a service manager is told, and what it may ask for: readiness, signs of life, the end, and reading the files again.
#![expect(clippy::disallowed_methods, reason = "a test starts the daemon and signals it")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixDatagram},
    process::{Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use support::{
    Home, SOON,
    openai::{Reply, Server},
    wait_for, wait_until,
};

/// A daemon that was started as systemd starts one.
struct Service {
    child: Child,
    socket: UnixDatagram,
    home: Home,
}

impl Service {
    fn start(home: Home, variables: &[(&str, &str)]) -> Self {
        let address = home.around().join("notify");
        let socket = UnixDatagram::bind(&address).expect("a socket");
        let mut command = home.command(&["serve", "fleet"]);
        command.env("NOTIFY_SOCKET", address).envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().expect("the binary starts"), socket, home }
    }

    /// The next thing that was told, which must come soon; several may come at once.
    fn told(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        self.socket.set_read_timeout(Some(SOON)).expect("a deadline");
        let length = self.socket.recv(&mut bytes).expect("something is told");
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    /// Passes over what is told until it is `wanted`; yields that, and what was passed over.
    fn told_until(&self, wanted: &str) -> (Vec<String>, Vec<String>) {
        let (began, mut before) = (Instant::now(), Vec::new());
        while began.elapsed() < SOON {
            let told = self.told();
            if told.iter().any(|line| line == wanted) {
                return (told, before);
            }
            before.extend(told);
        }
        panic!("waited {SOON:?} in vain for {wanted}: {before:?}");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    fn ended(&mut self) -> ExitStatus {
        wait_for(SOON, "the daemon's end", || self.child.try_wait().expect("a child can be waited for"))
    }

    fn beings(&self) -> String {
        self.home.run(&["get", "beings", "-o", "name"]).ok().stdout
    }
}

fn manifest(server: &Server, being: &str) -> String {
    format!(
        "[model.m]\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"x\"\n[being.{being}]\nmodel = \"m\"\ncycle = {{ every = \"1h\" }}\n",
        server.base_url()
    )
}

fn fleet(being: &str) -> (Home, Server) {
    let (home, server) = (Home::new(), Server::start(|_| Reply::say("well")));
    home.write("fleet/fleet.toml", &manifest(&server, being));
    (home, server)
}

#[test]
fn it_is_ready_when_what_is_declared_is_there_and_stopping_when_it_is_told_to() {
    let (home, _server) = fleet("ada");
    let mut service = Service::start(home, &[]);
    let first = service.told();
    assert_eq!(first.first().map(String::as_str), Some("READY=1"), "nothing is told before: {first:?}");
    assert!(first.iter().any(|line| line.starts_with("STATUS=1 beings, ")), "{first:?}");
    assert_eq!(service.beings(), "being/ada\n");
    service.told_until("STATUS=1 beings, 1 ready");
    service.signal(rustix::process::Signal::TERM);
    service.told_until("STOPPING=1");
    assert_eq!(service.ended().code(), Some(0));
}

#[test]
fn signs_of_life_come_more_often_than_they_are_asked_for_and_end_with_a_daemon_that_hangs() {
    let (home, _server) = fleet("ada");
    let service = Service::start(home, &[("WATCHDOG_USEC", "200000")]);
    for _ in 0..3 {
        service.told_until("WATCHDOG=1");
    }
    service.signal(rustix::process::Signal::STOP);
    service.socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a deadline");
    let mut bytes = [0; 4096];
    wait_until(SOON, "silence", || service.socket.recv(&mut bytes).is_err());
    service.signal(rustix::process::Signal::CONT);
    service.told_until("WATCHDOG=1");
}

#[test]
fn nobody_asked_for_signs_of_life_gets_none() {
    let (home, _server) = fleet("ada");
    let service = Service::start(home, &[]);
    service.told_until("STATUS=1 beings, 1 ready");
    service.signal(rustix::process::Signal::TERM);
    let (_, before) = service.told_until("STOPPING=1");
    assert!(!before.iter().any(|line| line.starts_with("WATCHDOG")), "{before:?}");
}

#[test]
fn a_hangup_has_files_read_again_that_nobody_watches() {
    let (home, _server) = fleet("ada");
    // A file behind a link is not in a watched folder: its change is found at the next look, which is half a minute away.
    let real = home.write("elsewhere/real.toml", "");
    symlink(&real, home.around().join("fleet/linked.toml")).expect("a link");
    let mut service = Service::start(home, &[]);
    service.told_until("STATUS=1 beings, 1 ready");
    fs::write(&real, "[being.eve]\nmodel = \"m\"\ncycle = { every = \"1h\" }\n").expect("a file can be written");
    service.signal(rustix::process::Signal::HUP);
    let soon = Duration::from_secs(20);
    wait_until(soon, "eve", || service.beings().contains("being/eve"));
    assert!(service.child.try_wait().expect("a child can be asked").is_none(), "it goes on");
}
