//! Load files of dbench: what comes of them, and what is refused.

use std::fmt::Write;

use nandkit_workload::{FileOperation, HostInputs, OperationKind, Phase, WorkloadError, WorkloadSpec};

fn operations(path: &str, more: &str) -> Result<Vec<FileOperation>, WorkloadError> {
    let spec: WorkloadSpec = format!("dbench:{path},{more}").parse().unwrap();
    let mut workload = spec.file_workload(1 << 30, 1, &HostInputs)?;
    let mut operations = Vec::new();
    for phase in Phase::ALL {
        workload.begin(phase);
        while let Some(operation) = workload.next_operation().unwrap() {
            operations.push(operation);
        }
    }
    Ok(operations)
}

fn count(operations: &[FileOperation], kind: OperationKind) -> usize {
    operations.iter().filter(|operation| operation.kind() == Some(kind)).count()
}

#[test]
fn each_client_does_what_the_load_says() {
    let all = operations("fixtures/small.load", "clients=2").unwrap();
    let of = |kind| count(&all, kind);
    // The directory of all clients is made once; each has its own, d and f.
    assert_eq!(of(OperationKind::MakeDirectory), 1 + 2 * 3);
    assert_eq!((of(OperationKind::Create), of(OperationKind::Rename)), (2 * 3, 2));
    // Three rounds of a read and a repeated one.
    assert_eq!(of(OperationKind::Read), 2 * 3 * 3);
    // A write to a deleted file does not reach the volume.
    assert_eq!(of(OperationKind::Write), 2 * 5);
    assert_eq!((of(OperationKind::Truncate), of(OperationKind::Remove), of(OperationKind::RemoveDirectory)), (2, 2, 2));
    // A sync of each file, and one at the end.
    assert_eq!(of(OperationKind::Sync), 2 + 1);
    let made =
        |wanted: &[u8]| all.iter().any(|of| matches!(of, FileOperation::MakeDirectory { name, .. } if name == wanted));
    assert!(made(b"client1") && made(b"client2"));
    // The second time begins with removing what the first one left.
    let twice = operations("fixtures/small.load", "clients=1,loops=2").unwrap();
    assert_eq!(count(&twice, OperationKind::Remove), 2 + 2);
    assert_eq!(count(&twice, OperationKind::RemoveDirectory), 2 + 2);
    let few = operations("fixtures/small.load", "clients=1,operations=10").unwrap();
    assert_eq!(count(&few, OperationKind::Write), 2);
}

#[test]
fn wrong_load_files_are_refused_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.load").display().to_string();
    let open = "NTCreateX \"\\a\" 0x40 0x2 1 NT_STATUS_OK";
    for (text, parts) in [
        (
            format!("{open}\nWritX 1 0 1 1 NT_STATUS_OK\n"),
            ["line 2", "\"WritX\" is unknown", "did you mean \"WriteX\""],
        ),
        (format!("{open}\n\nWriteX 2 0 1 1 NT_STATUS_OK\n"), ["line 3", "handle 2 is not open", "NTCreateX"]),
        ("NTCreateX \"\\a\" 0x40 0x1 1 NT_STATUS_OK\n".into(), ["line 1", "\\a is not there", "a status"]),
        ("LOOP 2\nSleep 1\n".into(), ["line 1", "LOOP", "ENDLOOP"]),
        ("ENDLOOP\n".into(), ["line 1", "ENDLOOP", "LOOP before"]),
        ("Unlink \"\\a\" 0x6 NT_STATUS_OK\n".into(), ["line 1", "is not there", "makes it"]),
        (
            "Mkdir \"\\a\" NT_STATUS_OK\nRename \"\\a\" \"\\a\\b\" NT_STATUS_OK\n".into(),
            ["line 2", "cannot be", "name"],
        ),
        ("# nothing\n".into(), ["line 1", "no operation", "WriteX"]),
        (format!("Close {}\n", "1".repeat(2000)), ["line 1", "longer", "1024"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = operations(&path, "clients=1").unwrap_err();
        assert!(error.is_input(), "{error}");
        let message = error.to_string();
        assert!(message.contains("x.load") && parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
    }
    assert!(operations("nowhere.load", "clients=1").unwrap_err().is_input());
    std::fs::write(&path, format!("{open}\nWriteX 1 */1%1+400000000 1 1 *\n")).unwrap();
    let error = operations(&path, "clients=3").unwrap_err();
    assert!(matches!(error, WorkloadError::DoesNotFit { .. }), "{error}");
}

#[test]
fn loops_without_end_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.load").display().to_string();
    let mut text = String::new();
    for _ in 0..40 {
        text.push_str("LOOP 4000000000\n");
    }
    for _ in 0..40 {
        text.push_str("ENDLOOP\n");
    }
    writeln!(text, "LOOP 0\nUnlink \"\\none\" 0 NT_STATUS_OK\nENDLOOP\nMkdir \"\\a\" NT_STATUS_OK").unwrap();
    std::fs::write(&path, text).unwrap();
    let all = operations(&path, "clients=1").unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
}
