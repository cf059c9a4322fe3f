//! Programs under the shared object, with a drive that this process serves.

#![allow(missing_docs)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Drive, compiled, text};
use wharf::files::Serving;

/// What a program keeps: up to 64 MiB, or that with the drive's cache; and all that its writes may become.
const COHERENT: [&str; 5] = [
    "67108864",
    "omni:1048576",
    "67108864,write-through",
    "67108864,write-around",
    "omni:1048576,write-through",
];

/// It keeps that, and is not told of what others write.
const INCOHERENT: [&str; 2] = [
    "67108864,coherence=none",
    "67108864,write-around,coherence=none",
];

/// What a program prints that does what programs do with files is the same on the machine's own file system and on a drive.
fn is_the_same_on_both(name: &str, kept: &[&'static str]) {
    let program = compiled(name);
    let own = tempfile::tempdir().unwrap();
    let expected = Command::new(program.path())
        .arg(own.path())
        .output()
        .unwrap();
    assert!(expected.status.success(), "{expected:?}");
    let expected = text(&expected.stdout);
    for drive in kept.iter().map(|kept| Drive::keeping(kept)) {
        let found = drive.run(Command::new(program.path()).arg("/where"));
        assert!(found.status.success(), "{found:?}");
        let found = text(&found.stdout);
        for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
            assert_eq!(
                found,
                expected,
                "line {} of {name}, {:?}",
                number + 1,
                drive.keeping
            );
        }
        assert_eq!(found.lines().count(), expected.lines().count());
        assert!(found.lines().count() > 30, "{found}");
        drive.check();
    }
}

#[test]
fn calls_do_what_the_kernel_does() {
    is_the_same_on_both("calls.c", &[&COHERENT[..], &INCOHERENT].concat());
}

#[test]
fn walks_through_trees_do_what_the_c_librarys_do() {
    is_the_same_on_both("walks.c", &[&COHERENT[..], &INCOHERENT].concat());
}

#[test]
fn asynchronous_reads_and_writes_do_what_the_c_librarys_do() {
    is_the_same_on_both("aio.c", &[&COHERENT[..], &INCOHERENT].concat());
}

/// Requests of the drive's files and of the machine's own in one context, by their numbers and by the library's functions, where it is.
#[test]
fn requests_by_libaio_do_what_the_kernel_does() {
    let program = compiled("libaio.c");
    let own = tempfile::tempdir().unwrap();
    let file = own.path().join("own");
    let arguments = |place: &Path, library: Option<&str>| {
        let mut command = Command::new(program.path());
        command.arg(place).arg(&file).args(library);
        command
    };
    let mut libraries = vec![None];
    let name = "libaio.so.1";
    let found = arguments(own.path(), Some(name)).output().unwrap();
    match found.status.success() {
        true => libraries.push(Some(name)),
        false => println!("by their numbers alone: there is no {name}"),
    }
    for library in libraries {
        let expected = arguments(own.path(), library).output().unwrap();
        assert!(expected.status.success(), "{expected:?}");
        let expected = text(&expected.stdout);
        assert!(expected.lines().count() > 35, "{expected}");
        for kept in COHERENT {
            let drive = Drive::keeping(kept);
            let found = drive.run(&mut arguments(Path::new("/where"), library));
            assert_eq!(
                text(&found.stdout),
                expected,
                "{kept} {library:?} {found:?}"
            );
            drive.check();
        }
    }
}

/// A process that has a file's locks alone grants them to itself, and nobody sees that.
#[test]
fn locks_that_a_process_grants_itself_are_the_kernels() {
    is_the_same_on_both("locks.c", &COHERENT);
}

/// Of what the C library leaves open: a request outlives its descriptor, and a child of a fork begins anew.
#[test]
fn asynchronous_requests_outlive_their_descriptors_and_are_not_a_childs() {
    let drive = Drive::new();
    let program = compiled("aio.c");
    let told = drive.run(Command::new(program.path()).args(["/where", "alone"]));
    assert_eq!(
        text(&told.stdout),
        "4096 4096 4096 4096 4096 4096 4096 4096 1 0\n0 wrong\n0 wrong, 0 failed, 18 bytes\n",
        "{told:?}"
    );
    drive.check();
}

/// Functions of the shared object do not take those of a program for each other.
#[test]
fn a_program_may_have_functions_by_names_of_the_c_library() {
    let drive = Drive::new();
    let program = compiled("own_names.c");
    let told = drive.run(Command::new(program.path()).arg("/where"));
    assert_eq!(text(&told.stdout), "4 0 0 0 4\n", "{told:?}");
    drive.check();
}

/// rustc did not start: its allocator asked where a file's name leads, and that asked the allocator for memory.
#[test]
fn a_program_may_have_an_allocator_that_asks_for_paths() {
    let drive = Drive::new();
    let program = compiled("allocator.c");
    for _ in 0..3 {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(text(&told.stdout), "an allocator of its own\n", "{told:?}");
    }
    drive.check();
}

#[test]
fn a_shell_redirects_to_files_of_the_drive_and_from_them() {
    let drive = Drive::new();
    let told = drive.shell(
        "seq 9 > /where/nine && sort -r < /where/nine | head -n 2
         seq 3 >> /where/nine; wc -l < /where/nine
         cat /where/nine /where/nine > /where/both; tail -n 1 /where/both
         cd /where && mkdir sub && cd sub && pwd && cat ../nine | wc -l
         (cd ..; ls) ; test -e ../../etc && echo outside",
    );
    assert_eq!(
        told,
        "9\n8\n12\n3\n/where/sub\n12\nboth\nnine\nsub\noutside\n"
    );
    drive.check();
}

/// Bash writes by streams of the C library, and C++ by streams that it has from before.
#[test]
fn streams_follow_their_descriptors() {
    let drive = Drive::new();
    let told = drive.run(Command::new("bash").args([
        "-c",
        "echo one > /where/a; echo two; { echo three; echo four; } >> /where/a; echo five; exec 1> /where/b; echo six
         exec 1>&2; echo seven; cat /where/a /where/b; read line < /where/b; echo $line; ls /none 2> /where/c; wc -l < /where/c",
    ]));
    assert_eq!(text(&told.stdout), "two\nfive\n");
    assert_eq!(text(&told.stderr), "seven\none\nthree\nfour\nsix\nsix\n1\n");
    let program = compiled("stream.cc");
    let redirected = format!(
        "{} > /where/cc < /where/a; cat /where/cc",
        program.path().display()
    );
    assert_eq!(
        drive.shell(&redirected),
        "c++ one\nc one\nc++ three\nc three\nc++ four\nc four\n"
    );
    drive.check();
}

#[test]
fn what_is_outside_of_the_place_is_the_machines() {
    let drive = Drive::new();
    let own = tempfile::tempdir().unwrap();
    let path = own.path().display();
    let told = drive.shell(&format!(
        "echo one > {path}/a; echo two > /where/a
         cat {path}/a /where/a; cp /where/a {path}/b; cat {path}/b
         mv {path}/a /where/moved && cat /where/moved; ls {path}
         ln {path}/b /where/hard 2>/dev/null || echo refused"
    ));
    assert_eq!(told, "one\ntwo\ntwo\none\nb\nrefused\n");
    drive.check();
}

#[test]
fn symbolic_links_lead_where_they_say() {
    let drive = Drive::new();
    let own = tempfile::tempdir().unwrap();
    let path = own.path().display();
    let told = drive.shell(&format!(
        "cd /where; mkdir -p d/e; echo inside > d/e/f; echo outside > {path}/g
         ln -s /where/d/e in; cat in/f; ln -s {path} out; cat out/g; echo new > out/h; cat {path}/h
         ln -s {path}/g direct; cat direct; readlink direct | tail -c 3; ls -l direct | cut -c1-10
         ln -s ../../.. up; test -d up/etc && echo up; rm out; ls {path}; realpath in/f
         ln -s {path}/none broken; cat broken 2>/dev/null || echo broken; (cd out2 2>/dev/null || echo none)
         ln -s {path} out; cd out && pwd -P | grep -c {path}; mv h /where/d/ && cat /where/out/../no 2>/dev/null; cat /where/d/h"
    ));
    assert_eq!(
        told,
        "inside\noutside\nnew\noutside\n/g\nlrwxrwxrwx\nup\ng\nh\n/where/d/e/f\nbroken\nnone\n1\nnew\n"
    );
    drive.check();
}

#[test]
fn programs_of_the_drive_run() {
    let drive = Drive::new();
    let program = compiled("hello.c");
    let told = drive.shell(&format!(
        "cp {} /where/hello; /where/hello 1; cd /where; ./hello 2
         PATH=/where:$PATH; hello 3
         printf '#!/bin/sh\\necho $0 $1\\n' > s; chmod +x s; ./s 4; /where/s 5
         chmod -x hello; ./hello 2>/dev/null; echo $?",
        program.path().display()
    ));
    assert_eq!(told, "hello 1\nhello 2\nhello 3\n./s 4\n/where/s 5\n126\n");
}

#[test]
fn a_descriptor_outlives_the_program_that_opened_it() {
    let drive = Drive::new();
    let told = drive.shell(
        "exec 5> /where/log; echo one >&5; sh -c 'echo two >&5'; (echo three >&5) ; exec 5>&-; cat /where/log
         exec 6< /where/log; head -c 4 <&6 > /dev/null; sh -c 'cat <&6'",
    );
    assert_eq!(told, "one\ntwo\nthree\ntwo\nthree\n");
}

#[test]
fn closing_all_descriptors_leaves_the_drive_usable() {
    let drive = Drive::new();
    let program = compiled("close_all.c");
    let told = drive.run(Command::new(program.path()).arg("/where"));
    assert!(told.status.success(), "{told:?}");
    assert_eq!(text(&told.stdout), "closed all\nstill here\n");
}

#[test]
fn two_programs_see_each_others_files() {
    let drive = Drive::new();
    let told = drive.shell(
        "for i in 1 2 3 4; do (for j in 1 2 3 4 5; do echo $i $j >> /where/all; done) & done; wait; wc -l < /where/all; sort -u /where/all | wc -l",
    );
    assert_eq!(told, "20\n20\n");
    drive.check();
}

#[test]
fn threads_work_while_their_process_forks() {
    let drive = Drive::new();
    let program = compiled("threads.c");
    for _ in 0..3 {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(
            text(&told.stdout),
            "0 wrong, 0 failed, 210 bytes\n",
            "{told:?}"
        );
    }
    drive.check();
}

#[test]
fn more_programs_than_there_are_places_wait_for_one() {
    let drive = Drive::with_places(4);
    let told =
        drive.shell("for i in $(seq 12); do seq $i > /where/$i & done; wait; cat /where/* | wc -l");
    assert_eq!(told, "78\n");
    drive.check();
}

/// Two processes that map a file would not see what the other writes: the second one is told so.
#[test]
fn a_file_is_mapped_to_be_written_by_one_process() {
    let program = compiled("maps.c");
    for drive in [Drive::new(), Drive::with_both_caches()] {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(
            text(&told.stdout),
            "to be read: 0\nanother process: ENODEV\nafter a lock: by a call\nalone: 0\nafter the lock: the first\n\
         another process: ENODEV\nafter that: 0\nread by another: the first\n",
            "{told:?}"
        );
        drive.check();
    }
}

/// Who maps a file to read it finds what others have written when it gets a lock, and does not get a mapping beside one that is written.
#[test]
fn a_file_is_mapped_to_be_read_by_many_processes_but_beside_none_that_writes() {
    let program = compiled("maps_read.c");
    for drive in [Drive::new(), Drive::with_both_caches()] {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(
            text(&told.stdout),
            "another reads: first\none reads: first\nafter a lock: second\nat the end: second\nmsync: 0\nafter msync: third\n\
         written by itself: fourth\nto be written: EACCES\none writes beside another: ENODEV\nanother writes beside one: ENODEV\n\
         one writes alone: fourth\nand reads: fifth\nanother reads beside it: ENODEV\nanother writes: fifth\n\
         one reads beside it: ENODEV\na copy: fifth\none reads after it: sixth\nmade larger: 1\nallowed later: 0\nand in the file: seventh\n0 wrong of 30\n",
            "{told:?}"
        );
        drive.check();
    }
}

/// Who waits for a process finds its locks given back, and what it had mapped in the file.
#[test]
fn a_process_has_given_everything_back_when_it_has_ended() {
    let program = compiled("ended.c");
    for drive in [Drive::new(), Drive::with_both_caches()] {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(text(&told.stdout), "100 taken, 100 written\n", "{told:?}");
        drive.check();
    }
}

/// Who is killed amid anything leaves the rest to others.
#[test]
fn a_process_that_becomes_somebody_else_is_that_one_for_the_drive() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    let program = compiled("user.c");
    for (socket_mode, argument) in [(0o666, "let-in"), (0o600, "kept-out")] {
        let drive = Drive::served(&Serving {
            socket_mode,
            ..Serving::default()
        });
        let told = drive.run(Command::new(program.path()).arg(argument));
        assert_eq!(text(&told.stdout), "done\n", "{socket_mode:o}");
        assert!(told.status.success() && told.stderr.is_empty());
        drive.check();
    }
}

#[test]
fn a_child_finds_nothing_of_its_parents_way_to_the_drive() {
    let drive = Drive::new();
    let program = compiled("children.c");
    let told = drive.run(&mut Command::new(program.path()));
    assert_eq!(text(&told.stdout), "done\n");
    assert!(told.status.success() && told.stderr.is_empty());
    drive.check();
}

#[test]
fn a_killed_program_holds_nobody_up() {
    let program = compiled("killed.c");
    for drive in COHERENT.map(Drive::keeping) {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        assert_eq!(text(&told.stdout), "40 killed, all written\n", "{told:?}");
        drive.check();
    }
}

/// What a process keeps of a file is so, whatever others do to the file.
#[test]
fn changes_by_another_process_show_at_once() {
    is_the_same_on_both("changes.c", &COHERENT);
}

/// Whatever becomes of writes in the cache, and by descriptors of all kinds.
#[test]
fn what_a_call_wrote_others_find_when_it_has_returned() {
    let program = compiled("modes.c");
    for drive in COHERENT.map(Drive::keeping) {
        let told = drive.run(Command::new(program.path()).arg("/where"));
        let expected = "0 wrong; enough: 1\n";
        assert_eq!(
            text(&told.stdout),
            expected,
            "{:?}: {told:?}",
            drive.keeping
        );
        drive.check();
    }
}

/// A read that begins after another process has written finds that, also beside processes that are stopped and killed.
#[test]
fn a_read_after_a_write_has_what_was_written() {
    let program = compiled("shared.c");
    for drive in COHERENT.map(Drive::keeping) {
        for _ in 0..2 {
            let told = drive.run(Command::new(program.path()).arg("/where"));
            assert_eq!(text(&told.stdout), "0 wrong\n", "{told:?}");
        }
        drive.check();
    }
}

#[test]
fn a_program_without_the_server_gets_errors() {
    let drive = Drive::new();
    assert_eq!(drive.shell("echo x > /where/a; cat /where/a"), "x\n");
    let mut after = drive.command(Command::new("cat").arg("/where/a"));
    drive.check();
    let told = after.output().unwrap();
    assert_eq!(told.status.code(), Some(1));
    assert!(
        text(&told.stderr).contains("wharf run: no drive at"),
        "{told:?}"
    );
    assert!(
        text(&told.stderr).contains("Input/output error"),
        "{told:?}"
    );
}

/// SQLite's clients read a database that was changed below them: SQLite notes by device and file what it has locked, and what was
/// locked had gone with the server. So did children that had inherited what was open write to the drive of the new one.
#[test]
fn what_was_open_and_locked_is_lost_with_its_server() {
    let mut drive = Drive::new();
    let program = compiled("server_gone.c");
    let mut running = drive.command(Command::new(program.path()).arg("/where"));
    let mut running = running
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(running.stdout.take().unwrap());
    let mut before = String::new();
    while !before.ends_with("ready\n") {
        assert!(told.read_line(&mut before).unwrap() > 0, "{before}");
    }
    assert_eq!(before, "locked: done\nmapped: done\nready\n");
    drive.serve_anew();
    running.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut after = String::new();
    told.read_to_string(&mut after).unwrap();
    assert_eq!(
        after,
        "unlinks what may be another's by now: EIO\nmakes: EIO\nmakes what is there: done\ncuts: EIO\nrenames: EIO\nreads: EIO\nwrites: EIO\nlocks: EIO\nunlocks: EIO\n\
         syncs: EIO\nbrings back: EIO\nstats: EIO\nchild reads: EIO\nchild writes: EIO\nchild syncs: EIO\nopens anew: done\n\
         same number 1, same device 0\nsame device 1\nlocks anew: done\ncloses what is lost: done\nchild locks: held\n\
         mapped anew: first\nin the file: first\nunlinks: done\n"
    );
    assert!(running.wait().unwrap().success());
    drive.check();
}

#[test]
fn what_is_not_there_is_refused_aloud() {
    let drive = Drive::new();
    let program = compiled("refused.c");
    let told = drive.run(Command::new(program.path()).arg("/where"));
    assert_eq!(
        text(&told.stdout),
        "io_uring: ENOSYS\nliburing: ENOSYS\ninotify: ENOSYS\npipe: ENXIO\n"
    );
    let said = text(&told.stderr);
    assert!(
        said.contains("io_uring is not there for files of a drive"),
        "{said}"
    );
    assert!(
        said.contains("inotify is not there for files of a drive"),
        "{said}"
    );
    assert!(
        said.contains("pipes and devices of a drive cannot be opened"),
        "{said}"
    );
}
