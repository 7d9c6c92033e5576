// The parts of a page with a chat that are the same in a browser and in an editor: the sessions, and the chat or the log-in.
import type { ComponentChildren } from 'preact';
import { Chat, copyText, type ChatProps } from '../chat/Chat';
import { LogIn } from '../chat/LogIn';
import { Sessions } from '../chat/Sessions';
import { Drawn } from './Drawn';
import type { PageData } from './use-page';
import { openSelect, showSession } from './view';

/** The list of sessions, beside the chat or as a drawer over it. */
export function SessionsNav(props: { page: PageData; drawer: boolean; open: boolean }) {
  const { page, drawer, open } = props;
  return (
    <Drawn name="sessions" open={open}>
      <nav class={`sessions${drawer ? ' drawer left' : ''}`} aria-label="Sessions" data-region="sessions"
        hidden={drawer && !open}>
        <Sessions sessions={page.sessions} current={page.session} canLoad={page.chain?.canLoad ?? false}
          disabled={page.lost || (page.chain?.state === 'running' ? false : 'The chain is not up.')}
          onNew={page.actions.newSession} onOpen={page.actions.openSession} onClose={page.actions.closeSession}
          onRefresh={page.actions.listSessions} />
      </nav>
    </Drawn>
  );
}

type FromPage = 'store' | 'topic' | 'session' | 'chain' | 'folder' | 'edits' | 'openSelect' | 'onSession' | 'findFiles';

export function ChatArea(props: Omit<ChatProps, FromPage> & {
  page: PageData;
  hidden?: boolean;
  inert: boolean;
  onRestart?: (() => void) | undefined;
  /** Shown in the place of the chat. */
  instead?: ComponentChildren;
}) {
  const { page, hidden = false, inert, instead, onRestart, ...chat } = props;
  const { chain } = page;
  const folder = page.sessions.find(([id]) => id === page.session)?.[1].cwd || page.features?.folder || '';
  return (
    <main class="chat" aria-label="Chat" hidden={hidden} inert={inert}>
      {instead ?? (chain?.state === 'login' ? (
        <LogIn agent={chain.agent ?? chain.components.at(-1) ?? 'The agent'} logins={chain.logins} error={chain.error}
          busy={page.actions.loggingIn} onLogIn={page.actions.logIn} onCopy={copyText} onRestart={onRestart} />
      ) : (
        <Chat {...chat} store={page.store} topic={page.topic} session={page.session} chain={chain}
          folder={folder} edits={page.edits.length} openSelect={openSelect.value}
          onSession={showSession} findFiles={page.findFiles} />
      ))}
    </main>
  );
}
