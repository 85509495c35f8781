//! The system calls that a sandboxed command goes without.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition, SeccompFilter,
    SeccompRule as Rule,
};

type Rules = BTreeMap<i64, Vec<Rule>>;

/// What no server needs: to look into other processes, to change the kernel, the clock, mounts or namespaces, and ways around the filter.
const NEEDLESS: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// The calls that start a process and nothing else; `clone` starts threads too.
#[cfg(target_arch = "x86_64")]
const FORKS: &[i64] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[i64] = &[];

/// The second table of x86-64: each call again under a number of its own, and the few that have another one there.
#[cfg(target_arch = "x86_64")]
const X32: (i64, &[i64]) = (0x4000_0000, &[521, 528, 539, 540]);
#[cfg(not(target_arch = "x86_64"))]
const X32: (i64, &[i64]) = (0, &[]);

/// The families of a network, and `AF_NETLINK`, by which the C library learns of addresses.
const NETWORK: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The filters for a command, to be applied one after the other.
///
/// Sockets of no family are given but those of a network, where it is granted. Unix sockets by path are not held by Landlock, and the
/// daemon and others like it listen on such: connected pairs (`socketpair`) are what is left of them. What is `alone` starts threads, and
/// no process.
pub(super) fn filters(network: bool, alone: bool) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused: Rules = NEEDLESS.iter().map(|call| (*call, Vec::new())).collect();
    let families: &[i32] = if network { &NETWORK } else { &[] };
    let is_other = |family: &i32| Condition::new(0, Len::Dword, Op::Ne, u64::from(family.unsigned_abs()));
    let others = families.iter().map(is_other).collect::<Result<Vec<_>, _>>()?;
    refused.insert(libc::SYS_socket, if others.is_empty() { Vec::new() } else { vec![Rule::new(others)?] });
    let makes_namespace = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        Rule::new(vec![Condition::new(0, Len::Qword, Op::MaskedEq(flag), flag)?])
    };
    let flags = (0..32).map(|bit| 1 << bit).filter(|flag| NAMESPACES & flag != 0);
    let mut clones = flags.map(makes_namespace).collect::<Result<Vec<_>, _>>()?;
    if alone {
        let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
        clones.push(Rule::new(vec![Condition::new(0, Len::Qword, Op::MaskedEq(thread), 0)?])?);
        refused.extend(FORKS.iter().map(|call| (*call, Vec::new())));
    }
    refused.insert(libc::SYS_clone, clones);
    let (second, others) = X32;
    refused.extend(refused.clone().into_iter().map(|(call, rules)| (call | second, rules)));
    refused.extend(others.iter().map(|call| (call | second, Vec::new())));
    // Its flags are in memory, where a filter cannot look. Whoever is told that there is none takes `clone`.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_clone3 | second, Vec::new())]);
    Ok([program(refused, libc::EPERM)?, program(unknown, libc::ENOSYS)?])
}

/// A filter that lets everything through.
pub(super) fn idle() -> Result<BpfProgram, seccompiler::BackendError> {
    program(Rules::new(), libc::EPERM)
}

fn program(rules: Rules, error: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}
