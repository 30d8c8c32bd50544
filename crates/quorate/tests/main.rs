//! The program `quorate` as it is started.

mod cli_errors;
mod open_files;
