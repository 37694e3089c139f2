//! Executes runs on several threads; the records come in the order of the runs, whatever the
//! threads do.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nandkit_record::RunRecord;
use nandkit_workload::Inputs;
use rayon::prelude::*;

use crate::job::{Inside, Job, Options, Stoppable};
use crate::kept::Kept;
use crate::{LabError, Progress};

const WHOLE: u32 = 1 << 20;

struct Meter<'a> {
    options: &'a Options<'a>,
    started_ns: u64,
    total: usize,
    reused: usize,
    finished: AtomicUsize,
    shares: Vec<AtomicU32>,
}

impl Meter<'_> {
    fn tell(&self) {
        let done: f64 = self.shares.iter().map(|share| f64::from(share.load(Ordering::Relaxed))).sum();
        let fresh_share = done / f64::from(WHOLE);
        let fresh = self.shares.len() as f64;
        let elapsed_ns = self.options.host.now_ns().saturating_sub(self.started_ns);
        let left_ns = (fresh_share > 0.0 && elapsed_ns > 0)
            .then(|| (elapsed_ns as f64 * (fresh - fresh_share).max(0.0) / fresh_share) as u64);
        (self.options.progress)(&Progress {
            finished: self.reused + self.finished.load(Ordering::Relaxed),
            total: self.total,
            fraction: (self.reused as f64 + fresh_share) / self.total.max(1) as f64,
            left_ns,
        });
    }

    fn share(&self, index: usize, fraction: f64) {
        if let Some(share) = self.shares.get(index) {
            let parts = (fraction.clamp(0.0, 1.0) * f64::from(WHOLE)) as u32;
            // Telling costs more than counting: tell only every thousandth part of a run.
            if parts.abs_diff(share.swap(parts, Ordering::Relaxed)) >= WHOLE / 1000 {
                self.tell();
            }
        }
    }
}

/// Runs all jobs and returns their records in the jobs' order.
pub(crate) fn execute<J: Job>(jobs: &[J], options: &Options<'_>) -> Result<Vec<RunRecord>, LabError> {
    let kept = options.directory.as_deref().map(|directory| Kept::open(directory, jobs, options)).transpose()?;
    let kept = Mutex::new(kept);
    let outcome = run_all(jobs, options, &kept);
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (&outcome, kept) {
        (Ok(records), Some(kept)) => kept.put_in_order(records)?,
        (Err(_), Some(kept)) => kept.leave(),
        (_, None) => {}
    }
    outcome
}

fn run_all<J: Job>(jobs: &[J], options: &Options<'_>, kept: &Mutex<Option<Kept>>) -> Result<Vec<RunRecord>, LabError> {
    let reusable = kept.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Kept::reusable);
    let mut by_key = reusable.unwrap_or_default();
    let fresh: Vec<&J> = jobs.iter().filter(|job| !by_key.contains_key(&job.key())).collect();
    let meter = Meter {
        options,
        started_ns: options.host.now_ns(),
        total: jobs.len(),
        reused: jobs.len() - fresh.len(),
        finished: AtomicUsize::new(0),
        shares: fresh.iter().map(|_| AtomicU32::new(0)).collect(),
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs)
        .build()
        .map_err(|error| LabError::Input(format!("cannot start {} threads: {error}", options.jobs)))?;
    let failed = AtomicBool::new(false);
    pool.install(|| try_out(&fresh, options, &failed))?;
    let outcomes: Vec<Option<Result<RunRecord, LabError>>> = pool.install(|| {
        // One job at a time from the front: neighbours in a grid take unequal time, and results
        // come in about the order of the spec.
        fresh
            .par_iter()
            .with_max_len(1)
            .enumerate()
            .map(|(index, job)| {
                if options.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                    return None;
                }
                let outcome = one(*job, index, &meter, &failed).and_then(|record| {
                    keep(kept, *job, &record)?;
                    meter.finished.fetch_add(1, Ordering::Relaxed);
                    meter.tell();
                    Ok(record)
                });
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                Some(outcome)
            })
            .collect()
    });
    let finished = meter.reused + meter.finished.load(Ordering::Relaxed);
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Ok(record) => {
                by_key.insert(record.key(), record);
            }
            // A run that stopped because another one failed is not the error to report.
            Err(LabError::Stopped { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let records: Vec<RunRecord> = jobs.iter().filter_map(|job| by_key.get(&job.key()).cloned()).collect();
    if records.len() < jobs.len() {
        return Err(LabError::Stopped { finished, total: jobs.len() });
    }
    Ok(records)
}

/// Tries out each job that is not built like an earlier one. A single run needs no trial.
fn try_out<J: Job>(fresh: &[&J], options: &Options<'_>, failed: &AtomicBool) -> Result<(), LabError> {
    if fresh.len() < 2 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    let different: Vec<&J> =
        fresh.iter().copied().filter(|job| job.built_as().is_some_and(|built| seen.insert(built))).collect();
    let misfit = different.par_iter().with_max_len(1).find_map_first(|job| {
        let inputs = Stoppable::new(options, failed);
        if inputs.is_stopped() {
            return None;
        }
        job.try_out(&inputs).map_err(|error| error.in_run(&job.title())).err()
    });
    misfit.map_or(Ok(()), Err)
}

fn one<J: Job>(job: &J, index: usize, meter: &Meter<'_>, failed: &AtomicBool) -> Result<RunRecord, LabError> {
    let host = meter.options.host;
    let started_ns = host.now_ns();
    let mut progress = |fraction: f64| {
        meter.share(index, fraction);
        if meter.options.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let inputs = Stoppable::new(meter.options, failed);
    let mut record = job
        .run(Inside { inputs: &inputs, progress: &mut progress, tap: meter.options.tap.clone() })
        .map_err(|error| error.in_run(&job.title()))?;
    record.host_time_ns = host.now_ns().saturating_sub(started_ns);
    record.host_peak_bytes = host.peak_bytes();
    meter.share(index, 1.0);
    Ok(record)
}

fn keep<J: Job>(kept: &Mutex<Option<Kept>>, job: &J, record: &RunRecord) -> Result<(), LabError> {
    match &mut *kept.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(kept) => kept.append(job, record),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::testing::record;
    use crate::{HostMeter, Results, Unmeasured};
    use nandkit_workload::NoInputs;

    struct Square(u64, bool);

    impl Job for Square {
        fn key(&self) -> String {
            record(self.0).key()
        }
        fn title(&self) -> String {
            format!("square of {}", self.0)
        }
        fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError> {
            // Later jobs are quicker, so that threads finish out of order.
            let steps = (20 - self.0.min(20)) * 20_000;
            std::hint::black_box((0..steps).fold(0u64, |busy, step| std::hint::black_box(busy ^ step)));
            if (inside.progress)(0.5).is_break() {
                return Err(LabError::Stopped { finished: 0, total: 0 });
            }
            if self.1 {
                return Err(LabError::Failed("as planned".to_string()));
            }
            Ok(record(self.0))
        }
    }

    fn run(jobs: &[Square], threads: usize, directory: Option<PathBuf>) -> Result<Vec<RunRecord>, LabError> {
        let stop = AtomicBool::new(false);
        execute(
            jobs,
            &Options {
                jobs: threads,
                directory,
                program: Some("test"),
                notice: &|_| (),
                inputs: &NoInputs,
                host: &Unmeasured,
                progress: &|_| (),
                stop: &stop,
                tap: None,
            },
        )
    }

    #[test]
    fn records_come_in_the_order_of_the_jobs() {
        let jobs: Vec<Square> = (0..20).map(|n| Square(n, false)).collect();
        let expected: Vec<RunRecord> = (0..20).map(record).collect();
        for threads in [1, 2, 4] {
            assert_eq!(run(&jobs, threads, None).unwrap(), expected);
        }
    }

    #[test]
    fn a_failed_run_keeps_what_was_finished_and_is_made_up_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_path_buf();
        let mut jobs: Vec<Square> = (0..8).map(|n| Square(n, n == 5)).collect();
        let error = run(&jobs, 1, Some(path.clone())).unwrap_err();
        assert!(!error.is_input());
        assert_eq!(error.to_string(), "square of 5: as planned");
        let (_, kept) = Results::open(&path).unwrap();
        assert_eq!(kept.len(), 5);
        jobs[5].1 = false;
        // A run that is kept would fail if it were run again.
        jobs[0].1 = true;
        assert_eq!(run(&jobs, 2, Some(path.clone())).unwrap().len(), 8);
        let (_, kept) = Results::open(&path).unwrap();
        assert_eq!(kept, (0..8).map(record).collect::<Vec<_>>());
    }

    #[test]
    fn stopping_is_told_and_keeps_what_was_finished() {
        let directory = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let jobs: Vec<Square> = (0..6).map(|n| Square(n, false)).collect();
        let stop_after_two = |progress: &Progress| stop.store(progress.finished >= 2, Ordering::Relaxed);
        let options = Options {
            jobs: 1,
            directory: Some(directory.path().to_path_buf()),
            program: Some("test"),
            notice: &|_| (),
            inputs: &NoInputs,
            host: &Unmeasured,
            progress: &stop_after_two,
            stop: &stop,
            tap: None,
        };
        let error = execute(&jobs, &options).unwrap_err();
        assert_eq!(error.to_string(), "stopped after 2 of 6 runs");
        assert_eq!(Results::open(directory.path()).unwrap().1.len(), 2);
        assert_eq!(run(&jobs, 2, Some(directory.path().to_path_buf())).unwrap().len(), 6);
    }

    #[test]
    fn progress_reaches_the_whole_and_knows_the_time_left() {
        struct Ticking(std::sync::atomic::AtomicU64);
        impl HostMeter for Ticking {
            fn now_ns(&self) -> u64 {
                self.0.fetch_add(1_000, Ordering::Relaxed)
            }
            fn peak_bytes(&self) -> u64 {
                7
            }
        }
        let heard = Mutex::new(Vec::new());
        let stop = AtomicBool::new(false);
        let host = Ticking(0.into());
        let hear = |progress: &Progress| heard.lock().unwrap().push(progress.clone());
        let jobs: Vec<Square> = (0..4).map(|n| Square(n, false)).collect();
        let options = Options {
            jobs: 1,
            directory: None,
            program: None,
            notice: &|_| (),
            inputs: &NoInputs,
            host: &host,
            progress: &hear,
            stop: &stop,
            tap: None,
        };
        let records = execute(&jobs, &options).unwrap();
        assert!(records.iter().all(|record| record.host_peak_bytes == 7 && record.host_time_ns > 0));
        let heard = heard.into_inner().unwrap();
        assert_eq!(heard.last().map(|p| (p.finished, p.fraction, p.left_ns)), Some((4, 1.0, Some(0))));
        assert!(heard.iter().any(|p| p.fraction == 0.125 && p.left_ns.is_some_and(|left| left > 0)), "{heard:?}");
    }
}
