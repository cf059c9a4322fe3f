//! Functions of users' own: programs in WebAssembly, interpreted.
//!
//! Problem: a program is anybody's. It may loop, allocate, write where it must not, or say that it made more than there is room for, and whoever
//! runs it has other work to do.
//!
//! Idea: it has no imports, so all that it can touch is its own memory, which has a bound. Each instruction takes fuel; when that of a turn
//! is used up, the program stays where it is and goes on in its next turn ([`Step::is_pending`]); when that of a piece is, it is stopped.
//! What it says of bytes is checked against what it was given. Numbers that are none have one form, so an answer is the same everywhere.
//!
//! | export | type | what it is |
//! |---|---|---|
//! | `memory` | memory | [`PROGRAM_MEMORY_BYTES`] at most |
//! | `wharf_input`, `wharf_output` | constant `i32` | where [`PROGRAM_PIECE_BYTES`] bytes of input, and of output, lie in it |
//! | `wharf_step` | `(input_bytes: i32, room_bytes: i32) -> i64` | works on the input: bytes that it took, and 2^32 times those that it made; less than 0 if the bytes mean nothing to it |
//! | `wharf_begin` | `(argument_bytes: i32, count: i32) -> i64` | not needed: is called first, with its argument as the input; 0 if that has a meaning |
//! | `wharf_finish` | `(room_bytes: i32) -> i64` | not needed: makes what is left, until that is nothing |
//! | `wharf_value` | `() -> i64` | not needed: its value; without it the value is how many bytes it made |

use std::panic::{AssertUnwindSafe, catch_unwind};

use wasmi::{
    CompilationMode, Config, Engine, Func, Instance, Linker, Memory, Module, ResumableCall,
    ResumableCallOutOfFuel, Store, StoreLimits, StoreLimitsBuilder, Val, ValType,
};

use super::{
    PROGRAM_BYTES_MAX, PROGRAM_CALL_FUEL, PROGRAM_MEMORY_BYTES, PROGRAM_PIECE_BYTES,
    PROGRAM_TURN_FUEL, Refused, Step,
};

/// Bytes of a program's stack of values, at most.
const STACK_BYTES: usize = 128 << 10;

/// Calls within calls, at most.
const CALLS_MAX: usize = 1_000;

/// What it takes to read a program and to make its memory, as instructions: 8 us and 2 ns a byte were timed, where an instruction takes 0.3.
const BEGIN_FUEL: u64 = 25_000;
const BEGIN_FUEL_BY_BYTE: u64 = 6;

/// A program at work.
pub(super) struct Program {
    store: Store<StoreLimits>,
    exports: Exports,
    stage: Stage,
    /// The call whose turn is over.
    stopped: Option<ResumableCallOutOfFuel>,
    /// What it was given: bytes of input, and of room.
    given: (usize, usize),
    argument: Vec<u8>,
    count: u32,
    /// Fuel that the call may still take.
    left: u64,
    /// Fuel that was taken and not asked for yet.
    taken: u64,
    made: u64,
    value: Option<u64>,
}

/// What a program has to show.
struct Exports {
    memory: Memory,
    input_at: usize,
    output_at: usize,
    step: Func,
    begin: Option<Func>,
    finish: Option<Func>,
    value: Option<Func>,
}

/// What is called next, or goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Step,
    Finish,
    Value,
}

/// Checks a program as a whole, and says what is wrong with it.
///
/// # Errors
/// What is wrong.
pub fn check_program(program: &[u8]) -> Result<(), String> {
    begin(program).map(drop)
}

/// What the interpreter does with a program of anybody's. It is not ours: if it panics, the program is at fault, and not whoever runs it.
/// (wasmi 2.0.0 divides by zero where its own limits are on and a section of code has bytes and no function, and its translator panics where it
/// translates a function while it checks it, and that has operators behind its end: both are off here.)
fn guarded<T>(f: impl FnOnce() -> T) -> Option<T> {
    // What it left half done is dropped with the program.
    catch_unwind(AssertUnwindSafe(f)).ok()
}

fn engine() -> Engine {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // All of it is checked at once; each function is translated when it is first called.
        .compilation_mode(CompilationMode::LazyTranslation)
        .allow_start_fn(false)
        .ignore_custom_sections(true)
        .wasm_multi_memory(false)
        .set_max_recursion_depth(CALLS_MAX)
        .set_min_stack_height(1 << 10)
        .set_max_stack_height(STACK_BYTES)
        .set_max_cached_stacks(1);
    Engine::new(&config)
}

/// The program in a memory of its own. Nothing of it has run.
fn begin(program: &[u8]) -> Result<(Store<StoreLimits>, Exports), String> {
    if program.len() > PROGRAM_BYTES_MAX {
        return Err(format!(
            "it has {} bytes, and a program has {PROGRAM_BYTES_MAX} at most",
            program.len()
        ));
    }
    let begun = guarded(|| instantiate(program));
    begun.unwrap_or_else(|| Err("the interpreter fails on it".to_owned()))
}

fn instantiate(program: &[u8]) -> Result<(Store<StoreLimits>, Exports), String> {
    let engine = engine();
    let module = Module::new(&engine, program).map_err(|error| error.to_string())?;
    if let Some(import) = module.imports().next() {
        let (from, name) = (import.module(), import.name());
        return Err(format!(
            "it imports {from}.{name}, and programs have no imports"
        ));
    }
    let limits = StoreLimitsBuilder::new()
        .memory_size(PROGRAM_MEMORY_BYTES)
        .table_elements(1 << 10)
        .tables(4)
        .instances(1)
        .memories(1);
    let mut store = Store::new(&engine, limits.build());
    store.limiter(|limits| limits);
    // For the bytes that its memory begins with.
    let filled = store.set_fuel(PROGRAM_CALL_FUEL);
    filled.map_err(|error| error.to_string())?;
    let linker = Linker::new(&engine);
    let instance = linker.instantiate_and_start(&mut store, &module);
    let instance = instance.map_err(|error| {
        format!("{error} (programs have {PROGRAM_MEMORY_BYTES} bytes of memory at most)")
    })?;
    let exports = Exports::of(instance, &store)?;
    Ok((store, exports))
}

impl Exports {
    fn of(instance: Instance, store: &Store<StoreLimits>) -> Result<Exports, String> {
        let memory = instance.get_memory(store, "memory");
        let memory = memory.ok_or("it exports no memory named memory")?;
        let place = |name: &str| {
            let global = instance.get_global(store, name);
            let at = global.and_then(|global| global.get(store).i32());
            let at =
                at.ok_or_else(|| format!("it exports no constant of type i32 named {name}"))?;
            let at = at as u32 as usize;
            match at + PROGRAM_PIECE_BYTES <= memory.data_size(store) {
                true => Ok(at),
                false => Err(format!(
                    "{name} is {at}: {PROGRAM_PIECE_BYTES} bytes from there are not in its memory"
                )),
            }
        };
        let function = |name: &str, params: &[ValType]| {
            let Some(found) = instance.get_func(store, name) else {
                return Ok(None);
            };
            let r#type = found.ty(store);
            match r#type.params() == params && r#type.results() == [ValType::I64] {
                true => Ok(Some(found)),
                false => Err(format!(
                    "{name} is to take {} numbers of type i32 and give one of type i64",
                    params.len()
                )),
            }
        };
        let two = [ValType::I32; 2];
        Ok(Exports {
            input_at: place("wharf_input")?,
            output_at: place("wharf_output")?,
            step: function("wharf_step", &two)?.ok_or("it exports no function named wharf_step")?,
            begin: function("wharf_begin", &two)?,
            finish: function("wharf_finish", &two[..1])?,
            value: function("wharf_value", &[])?,
            memory,
        })
    }
}

impl Program {
    pub(super) fn new(program: &[u8], argument: &[u8], count: u32) -> Result<Program, Refused> {
        let (store, exports) = begin(program).map_err(|_| Refused::NoProgram)?;
        let is_asked = !argument.is_empty() || count > 0;
        if argument.len() > PROGRAM_PIECE_BYTES || (is_asked && exports.begin.is_none()) {
            return Err(Refused::ProgramArgument);
        }
        let stage = match exports.begin {
            Some(_) => Stage::Begin,
            None => Stage::Step,
        };
        Ok(Program {
            store,
            exports,
            stage,
            stopped: None,
            given: (0, 0),
            argument: argument.to_vec(),
            count,
            left: 0,
            taken: BEGIN_FUEL + BEGIN_FUEL_BY_BYTE * program.len() as u64,
            made: 0,
            value: None,
        })
    }

    /// Instructions since this was asked last.
    pub(super) fn take_fuel(&mut self) -> u64 {
        std::mem::take(&mut self.taken)
    }

    pub(super) fn value(&self) -> u64 {
        self.value.unwrap_or(self.made)
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        if self.stage == Stage::Begin {
            return self.begin();
        }
        if input.is_empty() || (room.is_empty() && self.stopped.is_none()) {
            return Ok(Step::default());
        }
        if self.stopped.is_none() {
            let input = &input[..input.len().min(PROGRAM_PIECE_BYTES)];
            self.put(input)?;
            self.given = (input.len(), room.len().min(PROGRAM_PIECE_BYTES));
        }
        let (bytes, most) = self.given;
        let params = [Val::I32(bytes as i32), Val::I32(most as i32)];
        let Some(answer) = self.call(self.exports.step, &params)? else {
            return Ok(PENDING);
        };
        if answer < 0 {
            return Err(Refused::Damaged);
        }
        let (taken, made) = (answer as u32 as usize, (answer >> 32) as usize);
        if taken > bytes || taken + made == 0 {
            return Err(Refused::Unruly);
        }
        self.get(made, most, room)?;
        Ok(Step::of(taken, made))
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        match self.stage {
            Stage::Begin => return self.begin(),
            Stage::Step => {
                assert!(
                    self.stopped.is_none(),
                    "a step that is pending is asked again"
                );
                self.stage = match self.exports.finish {
                    Some(_) => Stage::Finish,
                    None => Stage::Value,
                };
            }
            Stage::Finish | Stage::Value => {}
        }
        if self.stage == Stage::Value {
            return self.end();
        }
        if self.stopped.is_none() {
            self.given = (0, room.len().min(PROGRAM_PIECE_BYTES));
        }
        let most = self.given.1;
        let finish = self.exports.finish.expect("there is one, in this stage");
        let Some(answer) = self.call(finish, &[Val::I32(most as i32)])? else {
            return Ok(PENDING);
        };
        let made = usize::try_from(answer).map_err(|_| Refused::Damaged)?;
        if made == 0 {
            self.stage = Stage::Value;
            return Ok(PENDING);
        }
        self.get(made, most, room)?;
        Ok(Step::of(0, made))
    }

    /// Has it look at its argument.
    fn begin(&mut self) -> Result<Step, Refused> {
        let begin = self.exports.begin.expect("there is one, in this stage");
        if self.stopped.is_none() {
            let argument = std::mem::take(&mut self.argument);
            self.put(&argument)?;
            self.given = (argument.len(), 0);
        }
        let params = [Val::I32(self.given.0 as i32), Val::I32(self.count as i32)];
        match self.call(begin, &params)? {
            None => {}
            Some(0) => self.stage = Stage::Step,
            Some(_) => return Err(Refused::ProgramArgument),
        }
        Ok(PENDING)
    }

    /// Has it say its value, once.
    fn end(&mut self) -> Result<Step, Refused> {
        if self.value.is_some() {
            return Ok(Step::default());
        }
        let value = match self.exports.value {
            Some(value) => self.call(value, &[])?,
            None => Some(self.made as i64),
        };
        let Some(value) = value else {
            return Ok(PENDING);
        };
        self.value = Some(value as u64);
        Ok(Step::default())
    }

    /// Lays bytes where it looks for them.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let (memory, at) = (self.exports.memory, self.exports.input_at);
        let put = memory.write(&mut self.store, at, bytes);
        put.map_err(|_| Refused::Failed)
    }

    /// Takes what it made, if it had so much room.
    fn get(&mut self, made: usize, most: usize, room: &mut [u8]) -> Result<(), Refused> {
        if made > most || made > room.len() {
            return Err(Refused::Unruly);
        }
        let (memory, at) = (self.exports.memory, self.exports.output_at);
        let read = memory.read(&self.store, at, &mut room[..made]);
        read.map_err(|_| Refused::Failed)?;
        self.made += made as u64;
        Ok(())
    }

    /// Calls one of its functions, or goes on with what was stopped, for one turn; gives what it answers, if it comes to that.
    fn call(&mut self, function: Func, params: &[Val]) -> Result<Option<i64>, Refused> {
        let mut answer = [Val::I64(0)];
        let stopped = self.stopped.take();
        let needed = stopped.as_ref().map_or(0, |call| call.required_fuel());
        if stopped.is_none() {
            self.left = PROGRAM_CALL_FUEL;
        }
        let fuel = PROGRAM_TURN_FUEL.max(needed);
        if fuel > self.left {
            return Err(Refused::Endless);
        }
        self.store.set_fuel(fuel).map_err(|_| Refused::Failed)?;
        let called = guarded(|| match stopped {
            Some(call) => call.resume(&mut self.store, &mut answer),
            None => function.call_resumable(&mut self.store, params, &mut answer),
        });
        let called = called.ok_or(Refused::Failed)?;
        let rest = self.store.get_fuel().unwrap_or(0);
        let taken = fuel - rest.min(fuel);
        self.left -= taken;
        self.taken += taken;
        match called {
            Ok(ResumableCall::Finished) => Ok(answer[0].i64()),
            Ok(ResumableCall::OutOfFuel(call)) => {
                self.stopped = Some(call);
                Ok(None)
            }
            Ok(ResumableCall::HostTrap(_)) | Err(_) => Err(Refused::Failed),
        }
    }
}

/// A turn is over.
const PENDING: Step = Step {
    taken: 0,
    made: 0,
    is_pending: true,
};

#[cfg(test)]
mod tests;
