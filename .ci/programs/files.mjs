// Files, as Node has them: a tree is made, copied, hashed, packed, watched for what a listing says, and removed. It prints the
// same on any file system.
import fs from 'node:fs'
import path from 'node:path'
import crypto from 'node:crypto'
import zlib from 'node:zlib'
import { execFileSync, spawnSync } from 'node:child_process'
import { pipeline } from 'node:stream/promises'
import { Worker, isMainThread, workerData } from 'node:worker_threads'

if (!isMainThread) {
  for (let i = 0; i < 50; i++) fs.appendFileSync('appended', `${workerData} ${i}\n`)
  process.exit()
}

const fails = (what, f) => {
  try {
    f()
    console.log(what, 'works')
  } catch (error) {
    console.log(what, error.code, error.syscall)
  }
}
const hash = (tree) => {
  const sum = crypto.createHash('sha256')
  for (const name of fs.readdirSync(tree, { recursive: true }).sort()) {
    const stat = fs.lstatSync(path.join(tree, name))
    sum.update(`${name} ${stat.mode} ${stat.isFile() ? stat.size : ''}\n`)
    if (stat.isFile()) sum.update(fs.readFileSync(path.join(tree, name)))
    if (stat.isSymbolicLink()) sum.update(fs.readlinkSync(path.join(tree, name)))
  }
  return sum.digest('hex')
}

// Many at once, by the library's pool of threads.
fs.mkdirSync('tree/a/b', { recursive: true })
await Promise.all(Array.from({ length: 200 }, async (_, i) => {
  const name = `tree/${['', 'a/', 'a/b/'][i % 3]}file${i}`
  await fs.promises.writeFile(name, Buffer.alloc(i * 100, i))
  if (i % 10 === 0) await fs.promises.symlink(path.basename(name), `${name}.link`)
  if (i % 7 === 0) await fs.promises.chmod(name, 0o600)
}))
console.log('tree', fs.readdirSync('tree', { recursive: true }).length, hash('tree'))
fs.cpSync('tree', 'copy', { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
console.log('cp', hash('copy'))
await fs.promises.cp('tree', 'other', { recursive: true, verbatimSymlinks: true })
console.log('cp', hash('other'))
fs.renameSync('other', 'moved')
console.log('rename', hash('moved'))

// Streams.
const big = fs.createWriteStream('big')
for (let i = 0; i < 20000; i++) big.write(`${i} ${i * i}\n`)
await new Promise((resolve) => big.end(resolve))
await pipeline(fs.createReadStream('big'), zlib.createGzip(), fs.createWriteStream('big.gz'))
await pipeline(fs.createReadStream('big.gz'), zlib.createGunzip(), fs.createWriteStream('big.again'))
console.log('streams', fs.statSync('big').size, Buffer.compare(fs.readFileSync('big'), fs.readFileSync('big.again')))
const part = []
for await (const chunk of fs.createReadStream('big', { start: 1000, end: 1999 })) part.push(chunk)
console.log('part', crypto.createHash('md5').update(Buffer.concat(part)).digest('hex'))

// Handles.
const file = await fs.promises.open('handle', 'w+')
await file.write('hello', 10)
await file.writev([Buffer.from('one'), Buffer.from('two')], 20)
await file.truncate(24)
await file.sync()
await file.datasync()
await file.utimes(1, 2)
const stat = await file.stat({ bigint: true })
console.log('handle', stat.size, stat.mtimeNs, stat.isFile(), (await file.read(Buffer.alloc(100), 0, 100, 0)).bytesRead)
await file.close()
fs.copyFileSync('handle', 'handle.copy', fs.constants.COPYFILE_EXCL)
fails('copy again', () => fs.copyFileSync('handle', 'handle.copy', fs.constants.COPYFILE_EXCL))
fails('clone', () => fs.copyFileSync('handle', 'cloned', fs.constants.COPYFILE_FICLONE))
fs.linkSync('handle', 'hard')
console.log('link', fs.statSync('hard').nlink, fs.readFileSync('hard').equals(fs.readFileSync('handle.copy')))
fails('open none', () => fs.openSync('none'))
fails('mkdir again', () => fs.mkdirSync('tree'))
fails('rmdir full', () => fs.rmdirSync('tree'))
fails('readdir of a file', () => fs.readdirSync('big'))
fails('access', () => fs.accessSync('handle', fs.constants.R_OK | fs.constants.W_OK))
fails('exec access', () => fs.accessSync('none', fs.constants.X_OK))
console.log('realpath', path.relative(process.cwd(), fs.realpathSync('tree/file0.link')), fs.realpathSync.native('tree/file0.link').endsWith('tree/file0'))
console.log('mkdtemp', fs.mkdtempSync('dir-').length, fs.existsSync('tree'), fs.existsSync('none'))
console.log('statfs', fs.statfsSync('.').bsize > 0)
const directory = fs.opendirSync('tree', { bufferSize: 4 })
let entries = 0
for await (const entry of directory) entries += entry.isFile() ? 1 : 100
console.log('opendir', entries)

// Threads and children.
await Promise.all([1, 2, 3].map((id) => new Promise((resolve) => new Worker(new URL(import.meta.url), { workerData: id }).on('exit', resolve))))
console.log('workers', fs.readFileSync('appended', 'utf8').split('\n').sort().join(',').length)
console.log('child', execFileSync('sh', ['-c', 'cat big | wc -l; pwd | sed "s,.*/,,"'], { encoding: 'utf8', cwd: 'tree/..' }).split('\n')[0])
const out = fs.openSync('from-child', 'w')
console.log('spawn', spawnSync('seq', ['5'], { stdio: ['ignore', out, 'inherit'] }).status)
fs.closeSync(out)
console.log('spawned', fs.readFileSync('from-child', 'utf8').length)
console.log('cwd', spawnSync('ls', { cwd: 'tree', encoding: 'utf8' }).stdout.split('\n').length)
fs.writeFileSync('module.cjs', 'module.exports = { value: 42, here: __filename.endsWith("module.cjs") }')
console.log('import', (await import(path.resolve('module.cjs'))).default)
let changed = 0
fs.watchFile('handle', { interval: 50 }, () => changed++)
await new Promise((resolve) => setTimeout(resolve, 150))
fs.appendFileSync('handle', 'more')
await new Promise((resolve) => setTimeout(resolve, 300))
fs.unwatchFile('handle')
console.log('watchFile', changed > 0)
for (const name of fs.readdirSync('.')) if (name !== 'files.mjs' && !name.startsWith('.out')) fs.rmSync(name, { recursive: true })
console.log('rm', fs.readdirSync('.').filter((name) => !name.startsWith('.out')).length)
