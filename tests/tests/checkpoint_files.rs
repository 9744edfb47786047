//! Runs that are killed: they lose nothing, and those that resume end with the bits of an unbroken one.
//!
//! The killed run is this very program, started again with the path of its folder in the environment. `FOLDBACK_KILLS=100`
//! makes more of them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use foldback::data::{DataLoader, TensorDataset};
use foldback::prelude::*;
use foldback::tensor::{Generator, StateDict, get_rng_state, set_rng_state};
use foldback::train::{Checkpoint, Checkpoints};

const FOLDER: &str = "FOLDBACK_KILLED_RUN";
const STEPS: usize = 60;

/// Everything that a step depends on.
struct Run {
    model: nn::Sequential,
    adam: Adam,
    schedule: CosineAnnealingLR,
    loader: DataLoader<TensorDataset<2>>,
    rng: Generator,
    step: usize,
}

impl Run {
    fn new() -> Result<Run> {
        let mut g = Generator::new(3);
        let (x, y) = (g.randn([30, 4]), g.randn([30, 1]));
        manual_seed(1);
        let model = sequential![
            Linear::new(4, 16),
            ReLU,
            Dropout::new(0.2), // the thread's generator
            Linear::new(16, 16),
            Dropout::new(0.3).seed(5),
            Linear::new(16, 1)
        ];
        let adam = Adam::new(model.parameters(), 0.01);
        let schedule = CosineAnnealingLR::new(&adam, STEPS);
        let loader = DataLoader::new(TensorDataset::new([x, y]), 8).shuffle(true).seed(2);
        Ok(Run { model, adam, schedule, loader, rng: get_rng_state(), step: 0 })
    }

    /// Goes on where the last checkpoint of the folder was saved, if there is one.
    fn resume(&mut self, kept: &Checkpoints) -> Result<()> {
        if let Some(last) = kept.last()? {
            let c = Checkpoint::open(last.path)?;
            c.get("model", &mut self.model)?;
            c.get("adam", &mut self.adam)?;
            c.get("schedule", &mut self.schedule)?;
            c.get("loader", &mut self.loader)?;
            c.get("rng", &mut self.rng)?;
            c.get("step", &mut self.step)?;
        }
        Ok(())
    }

    /// Trains to the end and hands out a checkpoint after every step.
    fn train(&mut self, mut after: impl FnMut(usize, f64, Checkpoint) -> Result<()>) -> Result<()> {
        let Run { model, adam, schedule, loader, rng, step } = self;
        set_rng_state(rng.clone());
        while *step < STEPS {
            for batch in &*loader {
                let [x, y] = batch?;
                adam.zero_grad();
                let loss = loss::mse_loss(model.forward(&x)?, &y)?;
                loss.backward()?;
                adam.step()?;
                schedule.step(&*adam)?;
                *step += 1;
                let now = Checkpoint::new()
                    .put("model", model)
                    .put("adam", adam)
                    .put("schedule", schedule)
                    .put("loader", loader)
                    .put("rng", &get_rng_state())
                    .put("step", step);
                after(*step, loss.item()?, now)?;
            }
        }
        Ok(())
    }

    fn state(&self) -> (StateDict, StateDict, StateDict) {
        (self.model.state_dict(), self.model.generator_states(), self.adam.state_dict())
    }
}

fn kept(folder: &Path) -> Checkpoints {
    Checkpoints::in_folder(folder).keep_last(2).keep_best(1)
}

/// The run that is killed, if this is its process.
#[test]
fn the_run_that_is_killed() -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let kept = kept(Path::new(&folder));
    let mut run = Run::new()?;
    run.resume(&kept)?;
    run.train(|step, loss, now| {
        kept.save_with(step, loss, &now)?;
        println!("saved {step}");
        Ok(())
    })
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["the_run_that_is_killed", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn killed_runs_end_as_unbroken_ones() -> Result<()> {
    if std::env::var_os(FOLDER).is_some() {
        return Ok(());
    }
    let mut unbroken = Run::new()?;
    let mut losses = Vec::new();
    unbroken.train(|_, loss, _| {
        losses.push(loss);
        Ok(())
    })?;

    let kills = std::env::var("FOLDBACK_KILLS").map_or(100, |n| n.parse().expect("a number of kills"));
    let folder: PathBuf = std::env::temp_dir().join(format!("foldback-killed-{}", std::process::id()));
    let mut moments = Generator::new(6);
    let (mut done, mut ended, mut reached) = (0, 0, 0);
    while done < kills || ended == 0 {
        let moment = moments.rand(()).item()?;
        let mut child = start(&folder);
        if done < kills {
            std::thread::sleep(Duration::from_secs_f64(0.01 + 0.15 * moment));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let finished = output.status.success();
        // What it has said to be saved is there, however soon it was killed.
        let said = String::from_utf8(output.stdout).unwrap();
        let said = said.lines().filter_map(|line| line.strip_prefix("saved ")?.parse().ok()).max();
        reached = reached.max(said.unwrap_or(0));
        done += usize::from(!finished);
        // Whenever it was killed: what was saved is whole, the latest step is there, and its loss is the unbroken run's.
        let now = check(&folder, &losses)?;
        assert!(now >= reached, "step {reached} was saved and is lost: now {now}");
        reached = now;
        if finished {
            ended += 1;
            let mut run = Run::new()?;
            run.resume(&kept(&folder))?;
            assert_eq!(run.step, STEPS);
            assert_eq!(run.state(), unbroken.state());
            // What the killed ones had no time to remove goes when the next one is saved: the last two and the best stay.
            let again = Checkpoint::open(kept(&folder).last()?.expect("the last step").path)?;
            kept(&folder).save_with(STEPS, losses[STEPS - 1], &again)?;
            assert_eq!(std::fs::read_dir(&folder)?.count(), 3);
            std::fs::remove_dir_all(&folder)?;
            reached = 0;
        }
    }
    Ok(())
}

/// Every file of a run is whole and belongs to the unbroken run; which step it has come to.
fn check(folder: &Path, losses: &[f64]) -> Result<usize> {
    let all = kept(folder).list()?;
    for saved in &all {
        Checkpoint::open(&saved.path)?;
        assert_eq!(saved.metric, Some(losses[saved.step - 1]), "step {}", saved.step);
    }
    let temporary = std::fs::read_dir(folder).map_or(0, |all| all.count()) - all.len();
    assert!(temporary <= 1, "{temporary} leftovers");
    Ok(all.last().map_or(0, |saved| saved.step))
}
