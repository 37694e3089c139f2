use super::*;
use crate::fs_suite::ModelMaker;
use crate::fs_suite::planted::{FsFault, PlantedMaker};
use crate::rounds::Rounds;

#[test]
fn the_model_agrees_with_itself() {
    for options in [ModelOptions::POSIX, ModelOptions::FAT] {
        for seed in 0..8 {
            let summary = run(&ModelMaker(options), &Plan::new(seed, 1500, options)).unwrap();
            assert_eq!((summary.operations, summary.no_space), (1500, 0));
            // Enough of both: what works and what is refused.
            assert!((50..900).contains(&summary.errors), "{summary:?}");
        }
    }
}

/// More seeds, for those who changed the model or the generator:
/// `NANDKIT_ROUNDS=2000 cargo test -p nandkit-testkit --lib model_compare`.
#[test]
fn any_mixture_of_features_agrees() {
    for seed in &mut Rounds::of(12) {
        let bits = nandkit_units::random::hash(seed, 1, 2);
        let letters: String =
            LETTERS.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, (letter, _))| letter).collect();
        let plan = Plan::from_replay(&format!("{seed}:400:{letters}"), ModelOptions::POSIX).unwrap();
        run(&ModelMaker(plan.options), &plan).unwrap();
    }
}

#[test]
fn a_full_volume_is_followed() {
    for options in [ModelOptions::POSIX, ModelOptions::FAT] {
        let mut met = 0;
        for seed in 0..6 {
            let plan = Plan { volume_size: VolumeSize::Small, space_slack: 8192, ..Plan::new(seed, 1000, options) };
            met += run(&ModelMaker(options), &plan).unwrap().no_space;
        }
        assert!(met > 50, "only {met} operations met a full volume");
    }
}

/// Each fault is found within a few seeds, and the short list shows it without the rest.
#[test]
fn planted_faults_are_found_and_shortened() {
    for fault in [
        FsFault::CutBytesComeBack,
        FsFault::GapNotZero,
        FsFault::BoundaryByteLost,
        FsFault::RenameKeepsOldName,
        FsFault::RenameOverFullDirectory,
        FsFault::ExchangeReplaces,
        FsFault::RetainForgotten,
        FsFault::RemountLosesTail,
        FsFault::LinksAlwaysOne,
        FsFault::XattrAppends,
        FsFault::MinorNumbersCut,
        FsFault::LinksOfFilesOnly,
        FsFault::XattrSpacesMixed,
        FsFault::ListEntryLost,
        FsFault::AttributesOfFilesOnly,
    ] {
        let maker = PlantedMaker(ModelOptions::POSIX, fault);
        let found = (0..16).find_map(|seed| run(&maker, &Plan::new(seed, 600, ModelOptions::POSIX)).err());
        let Some(found) = found else { panic!("{fault:?} was not found") };
        assert!(found.shortest.len() <= 12, "{fault:?} takes {} operations:\n{found}", found.shortest.len());
        let plan = Plan::from_replay(&found.replay, ModelOptions::POSIX).unwrap();
        let again = run(&maker, &plan).unwrap_err();
        assert_eq!(
            (again.at, &again.what),
            (found.at, &found.what),
            "{fault:?}: the replay string shows something else"
        );
    }
}

#[test]
fn plans_are_reproducible_and_read_back() {
    let plan = Plan::new(9, 300, ModelOptions::FAT);
    assert_eq!(generate(&plan), generate(&plan));
    assert_ne!(generate(&plan), generate(&Plan::new(10, 300, ModelOptions::FAT)));
    assert_eq!(plan.replay(), "9:300:ar");
    assert_eq!(Plan::new(1, 2, ModelOptions::POSIX).replay(), "1:2:cpohsdzxlear");
    let back = Plan::from_replay("7:50:ch", ModelOptions::POSIX).unwrap();
    assert_eq!((back.seed, back.operations, back.replay().as_str()), (7, 50, "7:50:ch"));
    for wrong in ["", "1", "1:2", "1:2:q", "x:2:c", "1:2:c:d"] {
        assert!(Plan::from_replay(wrong, ModelOptions::POSIX).is_none(), "{wrong}");
    }
}
