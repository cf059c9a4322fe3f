//! Random programs by commands, on several queues and cores: every answer, and in the end the tree, are those of the
//! model.

use wharf_files::model::ModelLimits;
use wharf_files::testing::beside::{
    Difference, Room, assert_alike, compare_answers, compare_views, new_model,
};
use wharf_files::testing::program::{Step, callers};
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::Users;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::{Likeness, view};
use wharf_files::vfs::SessionLimits;

use wharf_runtime::Seed;

use super::asker::Asker;
use super::subject::ByCommands;
use super::support::{Home, new_rig, run, seen_and_sound};

/// Runs a program on a drive and on the model.
fn alike(program: &[Step], home: Home, cores: u32, queues: u16) -> Result<(), Difference> {
    let mut rig = new_rig(home.config(cores, 4_000));
    rig.queues_per_client = queues;
    let program = program.to_vec();
    let (sender, receiver) = std::sync::mpsc::channel();
    run(&mut rig, move |host| async move {
        let model = new_model(ModelLimits::default());
        let mut oracle = Users::new(&&model, &callers(), SessionLimits::default());
        let mut subject = ByCommands::new(Asker::new(host));
        let compared = compare_answers(&mut subject, &mut oracle, &program, Room::Enough).await;
        subject.close_all().await;
        oracle.close_all().await.expect("it forgets all");
        let right = view(&model).await;
        let seen = seen_and_sound(&mut subject.asker.host).await;
        let result = compared.and_then(|()| compare_views(&seen, &right, Likeness::NO_TIMES));
        let _ = sender.send(result);
    });
    receiver.recv().expect("it has ended")
}

#[test]
fn random_programs_answer_as_the_model_does() {
    for seed in 0..18 {
        let mut steps = Steps::new(Seed(seed).rng(), Taste::default());
        let program = steps.program(120);
        let (cores, queues) = [(1, 1), (2, 3), (4, 2)][seed as usize % 3];
        let home = Home::ALL[seed as usize / 3 % 3];
        println!("{home:?}");
        assert_alike(seed, &program, |program| {
            alike(program, home, cores, queues)
        });
    }
}
