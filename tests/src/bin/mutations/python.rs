//! The Python package of the copy, and where its tests run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An environment that has what the tests need from the one that `make setup` makes, and the package of the copy.
#[derive(Debug)]
pub(crate) struct Python {
    maturin: PathBuf,
    env: PathBuf,
    site: PathBuf,
    wheels: PathBuf,
    pytest: PathBuf,
}

impl Python {
    /// Makes the environment below `folder`. An error says in one line what is missing.
    pub(crate) fn prepare(workspace: &Path, folder: &Path) -> Result<Python, String> {
        let envs = workspace.join("target/py");
        let maturin = envs.join("build/bin/maturin");
        let mut venvs: Vec<PathBuf> = fs::read_dir(&envs)
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        venvs.retain(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with("venv-") && !name.ends_with('t') && path.join("bin/pytest").is_file()
        });
        // As elsewhere, 3.11 where it is there.
        venvs.sort_by_key(|path| (!path.ends_with("venv-3.11"), path.clone()));
        let parent =
            venvs.first().filter(|_| maturin.is_file()).ok_or("no environment in target/py: run `make setup`")?;
        let env = folder.join("python");
        run(Command::new(parent.join("bin/python")).args(["-m", "venv", "--clear", "--without-pip"]).arg(&env))?;
        let ask = |python: &Path| {
            let code = "import sysconfig; print(sysconfig.get_path('platlib'))";
            run(Command::new(python.join("bin/python")).args(["-c", code])).map(|out| PathBuf::from(out.trim()))
        };
        let site = ask(&env)?;
        let theirs = ask(parent)?;
        fs::write(site.join("parent.pth"), format!("{}\n", theirs.display())).map_err(|error| error.to_string())?;
        let pytest = parent.join("bin/pytest");
        Ok(Python { maturin, env, site, wheels: folder.join("wheels"), pytest })
    }

    /// Commands that put the package of `tree` in place, in this order.
    pub(crate) fn build(&self, tree: &Path, target: &Path) -> Result<Vec<Command>, String> {
        let _ = fs::remove_dir_all(&self.wheels);
        let _ = fs::remove_dir_all(self.site.join("redlatch"));
        fs::create_dir_all(&self.wheels).map_err(|error| error.to_string())?;
        let python = self.env.join("bin/python");
        let mut build = Command::new(&self.maturin);
        build.args(["build", "--profile", "dev", "--manifest-path"]).arg(tree.join("py/Cargo.toml"));
        build.arg("--target-dir").arg(target).arg("--out").arg(&self.wheels).arg("--interpreter").arg(&python);
        let mut unpack = Command::new(&python);
        let code = "import glob, sys, zipfile; zipfile.ZipFile(glob.glob(sys.argv[1])[0]).extractall(sys.argv[2])";
        unpack.args(["-c", code]).arg(self.wheels.join("redlatch-*.whl")).arg(&self.site);
        Ok(vec![build, unpack])
    }

    /// Runs tests of `tree`, each as `file::function`.
    pub(crate) fn test(&self, tree: &Path, tests: &[String]) -> Command {
        let mut command = Command::new(self.env.join("bin/python"));
        // Not `-m pytest`, which would put the current folder on the path.
        command.arg(&self.pytest).args(["-x", "-p", "no:cacheprovider", "-c"]).arg(tree.join("py/pyproject.toml"));
        command.args(tests.iter().map(|test| tree.join("py/tests").join(test)));
        command
    }
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let words = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    if output.status.success() {
        Ok(words(&output.stdout))
    } else {
        Err(format!("{command:?}: {}", words(&output.stderr)))
    }
}
