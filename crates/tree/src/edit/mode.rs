//! Mode changes in the notation of chmod(1).

use nandkit_vfs::FileKind;

/// A change of permission bits: `644`, `u+x,go-w`, `a=rX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange(Vec<Action>);

/// One operator of a clause, or a whole mode.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// Sets the whole mode.
    Set(u16),
    /// Changes bits of some of user, group and others.
    Clause { who: u16, operator: u8, what: Bits },
}

/// The bits that a clause names, for all three classes, and the special bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// The bits `rwx`, and whether `X`, `s` and `t` were named.
    Named { rwx: u16, if_executable: bool, set_id: bool, sticky: bool },
    /// The bits of the user (6), the group (3) or others (0), given by the shift that extracts
    /// them.
    Of(u32),
}

const USER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
const OTHERS: u16 = 0o1007;
const ALL: u16 = USER | GROUP | OTHERS;

impl ModeChange {
    /// Parses a mode change. A clause without a class applies to all; there is no umask. The error
    /// says what is wrong and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no mode; expected an octal one (644, 4755) or clauses (u+x, go-w, a=rX)");
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
            return mode.map(|mode| Self(vec![Action::Set(mode)])).ok_or_else(wrong);
        }
        let mut actions = Vec::new();
        for clause in text.split(',') {
            let end = clause.bytes().position(|byte| b"+-=".contains(&byte)).ok_or_else(wrong)?;
            let (people, mut rest) = clause.split_at(end);
            let mut who = if people.is_empty() { ALL } else { 0 };
            for letter in people.bytes() {
                who |= match letter {
                    b'u' => USER,
                    b'g' => GROUP,
                    b'o' => OTHERS,
                    b'a' => ALL,
                    _ => return Err(wrong()),
                };
            }
            while let Some(operator) = rest.bytes().next() {
                let tail = rest.get(1..).unwrap_or_default();
                let end = tail.bytes().position(|byte| b"+-=".contains(&byte)).unwrap_or(tail.len());
                let (letters, next) = tail.split_at(end);
                actions.push(Action::Clause { who, operator, what: Bits::parse(letters).ok_or_else(wrong)? });
                rest = next;
            }
        }
        Ok(Self(actions))
    }

    /// The mode that results from `mode`.
    pub fn apply(&self, mode: u16, kind: FileKind) -> u16 {
        self.0.iter().fold(mode & 0o7777, |mode, action| match action {
            Action::Set(set) => *set,
            Action::Clause { who, operator, what } => {
                let bits = what.of(mode, kind) & who;
                match operator {
                    b'+' => mode | bits,
                    b'-' => mode & !bits,
                    _ => {
                        // A directory keeps its set-id bits unless they are named, as in GNU's
                        // chmod.
                        let kept = if kind == FileKind::Directory { 0o6000 } else { 0 };
                        mode & !(who & !kept) | bits
                    }
                }
            }
        })
    }
}

impl Bits {
    fn parse(letters: &str) -> Option<Self> {
        match letters {
            "u" => return Some(Self::Of(6)),
            "g" => return Some(Self::Of(3)),
            "o" => return Some(Self::Of(0)),
            _ => {}
        }
        let (mut rwx, mut if_executable, mut set_id, mut sticky) = (0, false, false, false);
        for letter in letters.bytes() {
            match letter {
                b'r' => rwx |= 4,
                b'w' => rwx |= 2,
                b'x' => rwx |= 1,
                b'X' => if_executable = true,
                b's' => set_id = true,
                b't' => sticky = true,
                _ => return None,
            }
        }
        Some(Self::Named { rwx, if_executable, set_id, sticky })
    }

    /// The named bits, for all three classes.
    const fn of(self, mode: u16, kind: FileKind) -> u16 {
        match self {
            Self::Of(shift) => (mode >> shift & 7) * 0o111,
            Self::Named { rwx, if_executable, set_id, sticky } => {
                let executable = matches!(kind, FileKind::Directory) || mode & 0o111 != 0;
                let mut bits = rwx * 0o111;
                if if_executable && executable {
                    bits |= 0o111;
                }
                if set_id {
                    bits |= 0o6000;
                }
                if sticky {
                    bits |= 0o1000;
                }
                bits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn modes_become_what_chmod_makes_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let (file, folder) = (directory.path().join("file"), directory.path().join("folder"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&folder).unwrap();
        let changes = [
            "644",
            "0755",
            "u+x",
            "go-w",
            "a=rX",
            "u=rwx,go=u-w",
            "+x",
            "o=",
            "g=u",
            "ug+s",
            "a+t",
            "u-s,g=rx",
            "=",
            "a-x+X",
            "u=s",
            "o=t,o-r",
            "go=",
        ];
        for change in changes {
            let parsed = ModeChange::parse(change).unwrap();
            for (path, kind) in [(&file, FileKind::Regular), (&folder, FileKind::Directory)] {
                for before in [0o644_u16, 0o4751, 0o2070, 0o1777, 0o600] {
                    fs::set_permissions(path, fs::Permissions::from_mode(before.into())).unwrap();
                    let theirs = Command::new("sh")
                        .args(["-c", "umask 0; chmod -- \"$0\" \"$1\"", change])
                        .arg(path)
                        .status()
                        .unwrap();
                    assert!(theirs.success(), "{change}");
                    let found = (fs::metadata(path).unwrap().mode() & 0o7777) as u16;
                    // GNU's chmod keeps a directory's set-id bits for an octal mode of fewer than
                    // five digits; here it is the whole mode.
                    let whole = change.bytes().all(|byte| byte.is_ascii_digit()) && kind == FileKind::Directory;
                    let mask = if whole { 0o1777 } else { 0o7777 };
                    assert_eq!(parsed.apply(before, kind) & mask, found & mask, "{change} on {before:o}, {kind:?}");
                }
            }
        }
        for wrong in ["", "8", "77777", "u", "x+u", "u+q", "u+x,", "rw"] {
            assert!(ModeChange::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
