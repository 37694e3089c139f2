//! The records of earlier starts: which of them can be reused for a run, and what happens to the
//! others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nandkit_record::RunRecord;

use crate::job::{Job, Options, Stoppable};
use crate::origin::{Origin, Origins};
use crate::results::DirectoryLock;
use crate::{LabError, Results};

/// The records in a results directory: only records that this program made.
pub(crate) struct Kept {
    /// Held to the end, because the records and the file of their origins must agree.
    _lock: DirectoryLock,
    results: Results,
    origins: Origins,
    /// The records that were there before and were not set aside.
    before: Vec<RunRecord>,
    program: Option<String>,
    /// A word for the input that each job reads besides its spec, by the job's key.
    inputs: BTreeMap<String, String>,
    directory: PathBuf,
    made: Made,
}

/// Whether the directory and the results file were made for this experiment.
struct Made {
    directory: bool,
    file: bool,
}

/// Why records are not reused.
#[derive(Default)]
struct Refused {
    incomplete: usize,
    program: usize,
    inputs: usize,
    not_repeatable: usize,
}

impl Refused {
    fn tell(&self, directory: &Path, notice: &dyn Fn(&str)) {
        let mut reasons = Vec::new();
        for (count, reason) in [
            (self.incomplete, "incomplete: it does not say what made it, as where its writing was broken off"),
            (self.program, "made by another build of nandkit, or by one that is not known"),
            (self.inputs, "made from a trace or directory that has changed since"),
            (self.not_repeatable, "made on a chip in a file, which goes on from run to run"),
        ] {
            match count {
                0 => {}
                1 => reasons.push(format!("1 record {reason}")),
                _ => reasons.push(format!("{count} records {reason}")),
            }
        }
        if !reasons.is_empty() {
            notice(&format!(
                "{}: not reused and set aside in {}: {}",
                directory.join(Results::FILE_NAME).display(),
                Results::OLD_FILE_NAME,
                reasons.join("; ")
            ));
        }
    }
}

impl Kept {
    /// Opens the directory. Records that do not stand for a run of this program are set aside.
    pub(crate) fn open<J: Job>(directory: &Path, jobs: &[J], options: &Options<'_>) -> Result<Self, LabError> {
        let made = Made { directory: !directory.exists(), file: !directory.join(Results::FILE_NAME).exists() };
        let lock = DirectoryLock::take(directory)?;
        let (mut results, known) = Results::open(directory)?;
        let origins = Origins::open(directory)?;
        let inputs = inputs(jobs, options);
        let repeatable: BTreeMap<String, bool> = jobs.iter().map(|job| (job.key(), job.is_repeatable())).collect();
        let (mut before, mut aside, mut refused) = (Vec::new(), Vec::new(), Refused::default());
        if results.was_torn() {
            let file = directory.join(Results::FILE_NAME);
            (options.notice)(&format!(
                "{}: the last record is incomplete, its writing was broken off: taken off",
                file.display()
            ));
        }
        // A record is written before its origin, so a stop between the two leaves only the last
        // record without an origin.
        let broken_off = known.last().filter(|last| origins.of(last).is_none()).map(RunRecord::key);
        // If no record has an origin, a program that kept no origins wrote them.
        let broken_off = broken_off
            .filter(|_| known.len() > 1 && known.iter().rev().skip(1).all(|other| origins.of(other).is_some()));
        for record in known {
            let key = record.key();
            let origin = origins.of(&record);
            if origin.is_none() && options.program.is_some() && broken_off.as_ref() == Some(&key) {
                refused.incomplete += 1;
            } else if origin.is_none_or(|origin| options.program != Some(origin.program.as_str())) {
                refused.program += 1;
            } else if repeatable.get(&key) == Some(&false) {
                refused.not_repeatable += 1;
            } else if inputs.get(&key).is_some_and(|now| origin.is_some_and(|origin| origin.inputs != *now)) {
                refused.inputs += 1;
            } else {
                before.push(record);
                continue;
            }
            aside.push(record);
        }
        if !aside.is_empty() {
            refused.tell(directory, options.notice);
            results = results.set_aside(&aside, &before)?;
        }
        Ok(Self {
            _lock: lock,
            results,
            origins,
            before,
            program: options.program.map(str::to_string),
            inputs,
            directory: directory.to_path_buf(),
            made,
        })
    }

    /// The records that can be reused instead of a run, by key.
    pub(crate) fn reusable(&self) -> BTreeMap<String, RunRecord> {
        self.before.iter().map(|record| (record.key(), record.clone())).collect()
    }

    /// Keeps a new record.
    pub(crate) fn append<J: Job>(&mut self, job: &J, record: &RunRecord) -> Result<(), LabError> {
        // A record without an origin is made again. If the origin were written first, it could be
        // taken for the origin of another record.
        self.results.append(record)?;
        if let (Some(program), Some(inputs)) = (&self.program, self.inputs.get(&job.key())) {
            let origin = Origin { program: program.clone(), inputs: inputs.clone() };
            self.origins.append(record, &origin)?;
        }
        Ok(())
    }

    /// Ends an experiment that failed. Its records stay; if there are none, the file and the
    /// directory that were made for it are removed.
    pub(crate) fn leave(self) {
        if self.results.is_empty() && self.made.file {
            // If this fails, an empty file stays, which the next experiment can use.
            let _ = fs::remove_file(self.directory.join(Results::FILE_NAME));
            if self.made.directory {
                // A directory that holds something else stays: removing it fails, as it should.
                let _ = fs::remove_dir(&self.directory);
            }
        }
    }

    /// Puts everything in the order of the experiment.
    pub(crate) fn put_in_order(self, records: &[RunRecord]) -> Result<(), LabError> {
        self.results.put_in_order(&self.before, records)?;
        Ok(self.origins.retain(self.before.iter().chain(records))?)
    }
}

/// A word for the input that each job reads besides its spec. A trace or directory is looked at
/// once, before it is used: if it changes in the meantime, the record will not match it later. An
/// input that cannot be read has no entry; the run itself reports the error.
fn inputs<J: Job>(jobs: &[J], options: &Options<'_>) -> BTreeMap<String, String> {
    let never = AtomicBool::new(false);
    let stoppable = Stoppable::new(options, &never);
    let mut seen = BTreeMap::new();
    let mut inputs = BTreeMap::new();
    for job in jobs {
        let word = match job.outside() {
            None => Some(Origin::NOTHING.to_string()),
            Some(outside) => seen.entry(outside).or_insert_with(|| outside.fingerprint(&stoppable).ok()).clone(),
        };
        inputs.extend(word.map(|word| (job.key(), word)));
    }
    inputs
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use nandkit_workload::{HostInputs, Outside};

    use super::*;
    use crate::Unmeasured;
    use crate::execute::execute;
    use crate::job::Inside;
    use crate::testing::record;

    struct Counted<'a> {
        seed: u64,
        trace: Option<&'a str>,
        repeatable: bool,
        made: &'a AtomicUsize,
    }

    impl Job for Counted<'_> {
        fn key(&self) -> String {
            record(self.seed).key()
        }
        fn is_repeatable(&self) -> bool {
            self.repeatable
        }
        fn outside(&self) -> Option<Outside<'_>> {
            self.trace.map(Outside::Trace)
        }
        fn title(&self) -> String {
            String::new()
        }
        fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError> {
            assert_eq!((inside.progress)(0.5), ControlFlow::Continue(()));
            // Each making is another record, as the time that it takes makes it.
            Ok(RunRecord { host_peak_bytes: self.made.fetch_add(1, Ordering::Relaxed) as u64, ..record(self.seed) })
        }
    }

    #[test]
    fn a_directory_takes_one_experiment_at_a_time() {
        struct Second<'a>(&'a Path);
        impl Job for Second<'_> {
            fn key(&self) -> String {
                record(1).key()
            }
            fn title(&self) -> String {
                "second".to_string()
            }
            fn run(&self, _: Inside<'_>) -> Result<RunRecord, LabError> {
                let made = AtomicUsize::new(0);
                let other = Counted { seed: 2, trace: None, repeatable: true, made: &made };
                let stop = AtomicBool::new(false);
                execute(&[other], &options(self.0, &stop)).map(|_| record(1))
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        // While the first one runs, a second one begins.
        let error = execute(&[Second(directory.path())], &options(directory.path(), &stop)).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("in use"), "{error}");
        let made = AtomicUsize::new(0);
        let later = Counted { seed: 2, trace: None, repeatable: true, made: &made };
        assert_eq!(execute(&[later], &options(directory.path(), &stop)).unwrap().len(), 1);
    }

    fn options<'a>(directory: &Path, stop: &'a AtomicBool) -> Options<'a> {
        Options {
            jobs: 1,
            directory: Some(directory.to_path_buf()),
            program: None,
            notice: &|_| (),
            inputs: &HostInputs,
            host: &Unmeasured,
            progress: &|_| (),
            stop,
            tap: None,
        }
    }

    #[test]
    fn records_stand_for_runs_of_the_same_program_on_the_same_inputs() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("trace");
        let trace = trace.to_str().unwrap();
        fs::write(trace, "one").unwrap();
        let out = directory.path().join("out");
        let (made, stop, heard) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(String::new()));
        let job = |seed, trace, repeatable| Counted { seed, trace, repeatable, made: &made };
        let jobs = [job(1, None, true), job(2, Some(trace), true), job(3, None, false)];
        let run = |program: Option<&str>, jobs: &[Counted<'_>]| {
            heard.lock().unwrap().clear();
            let before = made.load(Ordering::Relaxed);
            let options = Options {
                jobs: 1,
                directory: Some(out.clone()),
                program,
                notice: &|text| heard.lock().unwrap().push_str(text),
                inputs: &HostInputs,
                host: &Unmeasured,
                progress: &|_| (),
                stop: &stop,
                tap: None,
            };
            assert_eq!(execute(jobs, &options).unwrap().len(), jobs.len());
            assert!(Results::open(&out).unwrap().1.len() >= jobs.len());
            (made.load(Ordering::Relaxed) - before, heard.lock().unwrap().clone())
        };
        assert_eq!(run(Some("a"), &jobs), (3, String::new()));
        let (again, told) = run(Some("a"), &jobs);
        assert!(again == 1 && told.contains("1 record made on a chip in a file"), "{again} {told}");
        assert_eq!(run(Some("a"), &jobs[..2]), (0, String::new()));
        fs::write(trace, "two").unwrap();
        let (again, told) = run(Some("a"), &jobs[..2]);
        assert!(again == 1 && told.contains("1 record made from a trace"), "{again} {told}");
        for program in [Some("b"), None, None, Some("a")] {
            let (again, told) = run(program, &jobs);
            assert!(again == 3 && told.contains("3 records made by another build"), "{again} {told}");
        }
        // Nothing is lost: 1 + 1 + 4 times 3.
        let old = fs::read_to_string(out.join(Results::OLD_FILE_NAME)).unwrap();
        assert_eq!(old.lines().count(), 14);
        // A process killed while it wrote: in the middle of the last record, and behind it in the
        // middle of its origin.
        let cut = |name: &str, bytes: usize| {
            let whole = fs::read(out.join(name)).unwrap();
            fs::write(out.join(name), &whole[..whole.len() - bytes]).unwrap();
        };
        let jobs = &jobs[..2];
        assert_eq!(run(Some("a"), jobs).0, 0);
        for (name, bytes, expected) in [
            (Origins::FILE_NAME, 9, "1 record incomplete: it does not say what made it"),
            (Results::FILE_NAME, 20, "runs.jsonl: the last record is incomplete"),
        ] {
            // The jobs stand first: with the third record gone the last one is one of theirs.
            fs::remove_file(out.join(Results::FILE_NAME)).unwrap();
            fs::remove_file(out.join(Origins::FILE_NAME)).unwrap();
            run(Some("a"), jobs);
            cut(name, bytes);
            let (again, told) = run(Some("a"), jobs);
            assert!(again == 1 && told.contains(expected) && !told.contains("another build"), "{again} {told}");
        }
        // A directory of an older nandkit knows no origins.
        fs::remove_file(out.join(Origins::FILE_NAME)).unwrap();
        assert_eq!(run(Some("a"), jobs).0, 2);
    }
}
