//! Access control lists through archives, with GNU tar, setfacl and getfacl as judges.

use std::fs;
use std::process::Command;

use nandkit_tree::large::Holes;
use nandkit_tree::{ArchiveOptions, TarArchive, pack};
use nandkit_vfs::acl;
use nandkit_vfs::source::SourceTree;

use crate::common::{run, tar};

#[test]
fn lists_come_out_of_archives_of_gnu_tar_and_go_into_those_that_it_reads() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(from.join("d")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("f"), b"x").unwrap();
    fs::write(from.join("plain"), b"x").unwrap();
    fs::write(from.join("d/own"), b"x").unwrap();
    let set = |arguments: &[&str], path: &str| {
        run(Command::new("setfacl").args(arguments).arg(from.join(path)));
    };
    // The mask widens the group bits of the mode: without the list the group could write.
    set(&["-m", "u:54321:rw,g:54322:r"], "f");
    set(&["-d", "-m", "u:54323:rwx,g:54321:---"], "d");
    set(&["-m", "u:54324:-"], "d/own");
    let archive = place.path().join("a.tar");
    run(tar().arg("cf").arg(&archive).args(["--acls", "-C"]).arg(&from).arg("."));
    let tree = TarArchive::open(&archive, &ArchiveOptions::default()).unwrap();
    let kept = |name: &[u8], attribute: &[u8]| {
        let node = tree.nodes().iter().find(|node| node.name == name).unwrap();
        node.xattrs
            .iter()
            .find(|(found, _)| found == attribute)
            .map(|(_, value)| acl::to_text(&acl::parse(value).unwrap()))
    };
    let expected = "user::rw-\nuser:54321:rw-\ngroup::r--\ngroup:54322:r--\nmask::rw-\nother::r--\n";
    assert_eq!(kept(b"f", acl::ACCESS).as_deref(), Some(expected));
    // A list that says no more than the mode is not stored, as on Linux.
    assert_eq!([kept(b"plain", acl::ACCESS), kept(b"d", acl::ACCESS), kept(b"f", acl::DEFAULT)], [None, None, None]);
    let mut packed = Vec::new();
    pack::pack_tree(&tree, &mut packed, &pack::PackOptions { holes: Holes::Written, ..Default::default() }).unwrap();
    assert!(packed.windows(20).any(|window| window == b"SCHILY.xattr.system."), "the attributes stay as they were");
    let again = place.path().join("b.tar");
    fs::write(&again, &packed).unwrap();
    run(tar().arg("xf").arg(&again).args(["--acls", "--same-permissions", "-C"]).arg(&to));
    let shown = |root| run(Command::new("getfacl").args(["-R", "-n", "."]).current_dir(root));
    assert!(shown(&from).contains("default:user:54323:rwx"));
    assert_eq!(shown(&to), shown(&from));
}

#[test]
fn a_list_that_names_somebody_without_a_number_is_refused() {
    let record = b"SCHILY.acl.access=user::rw-,user:lisa:rw-,group::r--,mask::rw-,other::r--\n";
    let length = record.len() + 3;
    let data = [format!("{length} ").as_bytes(), record].concat();
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(data.len() as u64);
    header.set_cksum();
    let mut archive = header.as_bytes().to_vec();
    archive.extend(data);
    archive.resize(2048, 0);
    let error = TarArchive::read(archive.as_slice(), &ArchiveOptions::default()).unwrap_err().to_string();
    assert!(error.contains("\"lisa\" without a number") && error.contains("user:1000:rw-"), "{error}");
    // Without attributes no numbers of users are needed.
    let without = ArchiveOptions { no_xattrs: true, ..ArchiveOptions::default() };
    assert!(TarArchive::read(archive.as_slice(), &without).is_ok());
}
