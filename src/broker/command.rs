//! What a worker asks of its consumer.

use tokio::sync::{mpsc, oneshot};

use super::incoming::Tag;

/// What a [`super::Control`] asks for.
#[derive(Debug)]
pub(super) enum Command {
    Ack(Vec<Tag>),
    Survived,
    Pause,
    Resume,
    Stop(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

/// Takes together the acknowledgements that wait, up to the first other command.
pub(super) fn gather(first: Command, commands: &mut mpsc::UnboundedReceiver<Command>) -> (Vec<Tag>, Option<Command>) {
    let mut settled = Vec::new();
    let mut next = Some(first);
    while let Some(Command::Ack(tags)) = next {
        settled.extend(tags);
        next = commands.try_recv().ok();
    }
    (settled, next)
}
