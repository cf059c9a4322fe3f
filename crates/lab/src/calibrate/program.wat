;; What is timed as `program_fuel`: each byte is read, added to a sum, changed and written. program.wasm is made of this text.
(module
  (memory (export "memory") 1)
  (global (export "wharf_input") i32 (i32.const 1024))
  (global (export "wharf_output") i32 (i32.const 16384))
  (global $sum (mut i64) (i64.const 0))
  (func (export "wharf_step") (param $bytes i32) (param $room i32) (result i64)
    (local $at i32)
    (local $byte i32)
    (loop $each
      (local.set $byte (i32.load8_u offset=1024 (local.get $at)))
      (global.set $sum (i64.add (global.get $sum) (i64.extend_i32_u (local.get $byte))))
      (i32.store8 offset=16384 (local.get $at) (i32.add (local.get $byte) (i32.const 1)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $at) (local.get $bytes))))
    (i64.extend_i32_u (local.get $bytes)))
  (func (export "wharf_value") (result i64) (global.get $sum)))
